// A DBOS Go application for the acceptance tests; runs on SDK 1.2.
//
// The twin of app.py: same commands on stdin, same facts on stdout, same step log.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

type chainInput struct {
	Steps   int     `json:"steps"`
	Seconds float64 `json:"seconds"`
}

func note(ctx dbos.Context, event, workflow string, step int) error {
	file, err := os.OpenFile(
		os.Getenv("STEP_LOG"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644,
	)
	if err != nil {
		return err
	}
	executor := dbos.GetExecutorID(ctx)
	_, err = fmt.Fprintf(file, "%s %s %d %s\n", event, workflow, step, executor)
	return errors.Join(err, file.Close())
}

// The step that all workflows are made of.
func work(
	ctx dbos.Context, workflow string, number int, seconds float64,
) (string, error) {
	body := func(context.Context) (string, error) {
		if err := note(ctx, "begin", workflow, number); err != nil {
			return "", err
		}
		time.Sleep(time.Duration(seconds * float64(time.Second)))
		result := fmt.Sprintf("%s/%d", workflow, number)
		return result, note(ctx, "end", workflow, number)
	}
	return dbos.RunAsStep(ctx, body, dbos.WithStepName("work"))
}

func chain(ctx dbos.Context, input chainInput) (int, error) {
	workflow, err := dbos.GetWorkflowID(ctx)
	for step := 1; err == nil && step <= input.Steps; step++ {
		_, err = work(ctx, workflow, step, input.Seconds)
	}
	return input.Steps, err
}

// A workflow with everything a workflow can have.
func tell(ctx dbos.Context, title string) (string, error) {
	if _, err := work(ctx, title, 1, 0); err != nil {
		return "", err
	}
	err := errors.Join(
		dbos.SetEvent(ctx, "status", "told"),
		dbos.WriteStream(ctx, "lines", "once"),
		dbos.WriteStream(ctx, "lines", "upon a time"),
		dbos.CloseStream(ctx, "lines"),
	)
	if err != nil {
		return "", err
	}
	child, err := dbos.RunWorkflow(
		ctx, chain, chainInput{Steps: 1}, dbos.WithWorkflowID(title+"-child"),
	)
	if err != nil {
		return "", err
	}
	if _, err := child.GetResult(); err != nil {
		return "", err
	}
	heard, err := dbos.Recv[string](ctx, "news", 10*time.Second)
	return fmt.Sprintf("%s: %s", title, heard), err
}

func fail(dbos.Context, string) (string, error) {
	return "", errors.New("out of paper")
}

func tick(dbos.Context, dbos.ScheduledWorkflowInput) (any, error) {
	return nil, nil
}

func registerJobs(ctx dbos.Context) (dbos.Queue, error) {
	return dbos.RegisterQueue(ctx, "jobs", dbos.WithWorkerConcurrency(2))
}

// Has queues and schedules in the database; part of `perform`.
func furnish(ctx dbos.Context) (dbos.Queue, error) {
	jobs, err := registerJobs(ctx)
	if err != nil {
		return nil, err
	}
	_, err = dbos.RegisterQueue(
		ctx,
		"shut",
		dbos.WithRateLimiter(&dbos.RateLimiter{Limit: 1, Period: time.Hour}),
		dbos.WithQueueBasePollingInterval(2*time.Second),
	)
	// Go reads crontabs that begin with the second.
	return jobs, errors.Join(
		err,
		dbos.CreateSchedule(ctx, dbos.ScheduleSpec{
			ScheduleName: "nightly",
			Workflow:     tick,
			Schedule:     "0 0 3 * * *",
			Context:      map[string]int{"hall": 7},
		}),
		dbos.CreateSchedule(ctx, dbos.ScheduleSpec{
			ScheduleName: "hourly",
			Workflow:     tick,
			Schedule:     "0 0 * * * *",
		}),
	)
}

// Has one of everything in the database; the twin of `perform` in app.py.
func perform(ctx dbos.Context) error {
	jobs, err := furnish(ctx)
	if err != nil {
		return err
	}
	story, err := dbos.RunWorkflow(ctx, tell, "story", dbos.WithWorkflowID("story"))
	if err != nil {
		return err
	}
	if err := dbos.Send(ctx, "story", "rain", "news"); err != nil {
		return err
	}
	failing, err := dbos.RunWorkflow(ctx, fail, "", dbos.WithWorkflowID("failing"))
	if err != nil {
		return err
	}
	queued, err := dbos.RunWorkflow(
		ctx,
		chain,
		chainInput{Steps: 2},
		dbos.WithWorkflowID("queued"),
		dbos.WithQueue(jobs),
	)
	if err != nil {
		return err
	}
	_, storyError := story.GetResult()
	_, queuedError := queued.GetResult()
	if _, err := failing.GetResult(); err == nil {
		return errors.New("the failing workflow did not fail")
	}
	return errors.Join(storyError, queuedError)
}

func start(ctx dbos.Context, workflow, steps, seconds string) error {
	number, err := strconv.Atoi(steps)
	if err != nil {
		return err
	}
	each, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		return err
	}
	input := chainInput{Steps: number, Seconds: each}
	_, err = dbos.RunWorkflow(ctx, chain, input, dbos.WithWorkflowID(workflow))
	return err
}

func enqueue(ctx dbos.Context, workflow, seconds, delay string) error {
	each, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		return err
	}
	pause, err := time.ParseDuration(delay + "s")
	if err != nil {
		return err
	}
	jobs, err := registerJobs(ctx)
	if err != nil {
		return err
	}
	options := []dbos.WorkflowOption{
		dbos.WithWorkflowID(workflow), dbos.WithQueue(jobs),
	}
	if pause > 0 {
		options = append(options, dbos.WithDelay(pause))
	}
	_, err = dbos.RunWorkflow(ctx, chain, chainInput{Steps: 1, Seconds: each}, options...)
	return err
}

func wait(ctx dbos.Context, workflow string) error {
	handle, err := dbos.RetrieveWorkflow[any](ctx, workflow)
	if err != nil {
		return err
	}
	_, err = handle.GetResult()
	return err
}

// Obeys one command, and returns the fact that tells of it.
func obey(ctx dbos.Context, command string, words []string) (string, error) {
	switch command {
	case "start":
		return "started " + words[0], start(ctx, words[0], words[1], words[2])
	case "enqueue":
		return "started " + words[0], enqueue(ctx, words[0], words[1], words[2])
	case "cancel":
		return "cancelled " + words[0], dbos.CancelWorkflow(ctx, words[0])
	case "wait":
		return "finished " + words[0], wait(ctx, words[0])
	case "perform":
		return "performed", perform(ctx)
	}
	return "", fmt.Errorf("no such command: %s", command)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	ctx, err := dbos.NewContext(context.Background(), dbos.Config{
		AppName:            os.Getenv("APP_NAME"),
		DatabaseURL:        os.Getenv("SYSTEM_DATABASE_URL"),
		ApplicationVersion: os.Getenv("APP_VERSION"),
		ConductorURL:       os.Getenv("CONDUCTOR_URL"),
		ConductorAPIKey:    os.Getenv("CONDUCTOR_KEY"),
		// Its own is for standard output, which is for facts.
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	must(err)
	dbos.RegisterWorkflow(ctx, chain, dbos.WithWorkflowName("chain"))
	dbos.RegisterWorkflow(ctx, tell, dbos.WithWorkflowName("tell"))
	dbos.RegisterWorkflow(ctx, fail, dbos.WithWorkflowName("fail"))
	dbos.RegisterWorkflow(ctx, tick, dbos.WithWorkflowName("tick"))
	must(dbos.Launch(ctx))
	fmt.Println("ready", dbos.GetExecutorID(ctx))
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		command, rest, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if command == "stop" {
			break
		}
		fact, err := obey(ctx, command, strings.Fields(rest))
		must(err)
		fmt.Println(fact)
	}
	must(dbos.Shutdown(ctx, 10*time.Second))
}
