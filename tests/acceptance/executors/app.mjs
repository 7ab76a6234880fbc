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
  } else if (command === "wait") {
    await DBOS.retrieveWorkflow(words[0]).getResult();
    say(`finished ${words[0]}`);
  } else if (command === "stop") {
    break;
  }
}
await DBOS.shutdown();
process.exit(0);
