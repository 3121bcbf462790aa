import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Job = components["schemas"]["Job"];

export async function createAndTrigger(server: string, key: string): Promise<Job> {
  const client = createClient<paths>({ baseUrl: server, headers: { Authorization: `Bearer ${key}` } });
  const created = await client.POST("/api/v1/jobs", {
    body: {
      name: "nightly-report",
      schedule: { cron: "0 2 * * *", timezone: "Europe/Berlin" },
      target: { kind: "http", config: { url: "https://example.com/report" } },
    },
  });
  if (created.error) throw new Error(`${created.error.code}: ${created.error.detail ?? created.error.title}`);
  const run = await client.POST("/api/v1/jobs/{job}:trigger", { params: { path: { job: created.data.id } }, body: {} });
  if (run.error) throw new Error(run.error.code);
  return created.data;
}
