"""The measurements; each returns figures and leaves no process behind."""
