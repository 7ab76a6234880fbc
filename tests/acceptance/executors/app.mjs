// A DBOS TypeScript application for the acceptance tests; runs on SDK 4.27 and 5.2.
//
// The twin of app.py: same commands on stdin, same facts on stdout, same step log.
// Plain JavaScript, so that nothing has to be built.

import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { DBOS } from "@dbos-inc/dbos-sdk";

const environment = process.env;

function note(event, workflow, step) {
  appendFileSync(
    environment.STEP_LOG,
    `${event} ${workflow} ${step} ${DBOS.executorID}\n`,
  );
}

async function work(workflow, step, seconds) {
  note("begin", workflow, step);
  await sleep(seconds * 1000);
  note("end", workflow, step);
  return `${workflow}/${step}`;
}

async function chainOfSteps(steps, seconds) {
  const workflow = DBOS.workflowID;
  for (let step = 1; step <= steps; step += 1) {
    await DBOS.runStep(() => work(workflow, step, seconds), { name: "work" });
  }
  return steps;
}

const chain = DBOS.registerWorkflow(chainOfSteps, { name: "chain" });

// Awaits the child between its own two steps; the twin of `parent` in app.py.
async function parentOfSteps(steps, seconds) {
  const workflow = DBOS.workflowID;
  await DBOS.runStep(() => work(workflow, 1, 0), { name: "work" });
  const workflowID = `${workflow}-child`;
  const child = await DBOS.startWorkflow(chain, { workflowID })(steps, seconds);
  await child.getResult();
  await DBOS.runStep(() => work(workflow, 2, 0), { name: "work" });
}

const parent = DBOS.registerWorkflow(parentOfSteps, { name: "parent" });

// Its second step is recorded before its first; the twin of `pair` in app.py.
async function pairOfSteps(seconds) {
  const workflow = DBOS.workflowID;
  await Promise.all([
    DBOS.runStep(() => work(workflow, 1, seconds), { name: "work" }),
    DBOS.runStep(() => work(workflow, 2, 0), { name: "work" }),
  ]);
  await DBOS.runStep(() => work(workflow, 3, 0), { name: "work" });
}

const pair = DBOS.registerWorkflow(pairOfSteps, { name: "pair" });

async function tellStory(title) {
  await DBOS.runStep(() => work(title, 1, 0), { name: "work" });
  await DBOS.setEvent("status", "told");
  await DBOS.writeStream("lines", "once");
  await DBOS.writeStream("lines", "upon a time");
  await DBOS.closeStream("lines");
  const child = await DBOS.startWorkflow(chain, { workflowID: `${title}-child` })(1, 0);
  await child.getResult();
  const heard = await DBOS.recv("news", 10);
  return `${title}: ${heard}`;
}

const tell = DBOS.registerWorkflow(tellStory, { name: "tell" });

const fail = DBOS.registerWorkflow(
  async () => {
    throw new Error("out of paper");
  },
  { name: "fail" },
);

const tick = DBOS.registerWorkflow(async () => {}, { name: "tick" });

// Has one of everything in the database; the twin of `perform` in app.py.
async function perform() {
  await DBOS.registerQueue("jobs", { workerConcurrency: 2 });
  await DBOS.registerQueue("shut", {
    rateLimit: { limitPerPeriod: 1, periodSec: 3600 },
    minPollingIntervalMs: 2000,
  });
  await DBOS.createSchedule({
    scheduleName: "nightly",
    workflowFn: tick,
    schedule: "0 3 * * *",
    context: { hall: 7 },
  });
  await DBOS.createSchedule({
    scheduleName: "hourly",
    workflowFn: tick,
    schedule: "0 * * * *",
  });
  const story = await DBOS.startWorkflow(tell, { workflowID: "story" })("story");
  await DBOS.send("story", "rain", "news");
  const failing = await DBOS.startWorkflow(fail, { workflowID: "failing" })();
  const queued = await DBOS.startWorkflow(chain, {
    workflowID: "queued",
    queueName: "jobs",
  })(2, 0);
  await story.getResult();
  await queued.getResult();
  await failing.getResult().catch(() => {});
}

function say(text) {
  process.stdout.write(`${text}\n`);
}

DBOS.setConfig({
  name: environment.APP_NAME,
  systemDatabaseUrl: environment.SYSTEM_DATABASE_URL,
  applicationVersion: environment.APP_VERSION,
  logLevel: "info",
  runAdminServer: false,
});
await DBOS.launch({
  conductorURL: environment.CONDUCTOR_URL,
  conductorKey: environment.CONDUCTOR_KEY,
});
say(`ready ${DBOS.executorID}`);

for await (const line of createInterface({ input: process.stdin })) {
  const [command, ...words] = line.trim().split(" ");
  if (command === "start") {
    const [id, steps, seconds] = words;
    await DBOS.startWorkflow(chain, { workflowID: id })(Number(steps), Number(seconds));
    say(`started ${id}`);
  } else if (command === "family") {
    const [id, steps, seconds] = words;
    await DBOS.startWorkflow(parent, { workflowID: id })(Number(steps), Number(seconds));
    say(`started ${id}`);
  } else if (command === "pair") {
    await DBOS.startWorkflow(pair, { workflowID: words[0] })(Number(words[1]));
    say(`started ${words[0]}`);
  } else if (command === "enqueue") {
    const [id, seconds, delay] = words;
    await DBOS.startWorkflow(chain, {
      workflowID: id,
      queueName: "jobs",
      enqueueOptions: { delaySeconds: Number(delay) || undefined },
    })(1, Number(seconds));
    say(`started ${id}`);
  } else if (command === "send") {
    await DBOS.send(words[0], words[1], "news");
    say(`sent ${words[0]}`);
  } else if (command === "wait") {
    await DBOS.retrieveWorkflow(words[0]).getResult();
    say(`finished ${words[0]}`);
  } else if (command === "perform") {
    await perform();
    say("performed");
  } else if (command === "stop") {
    break;
  }
}
await DBOS.shutdown();
process.exit(0);
