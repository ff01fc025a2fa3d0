import { Client, Event, EventFilter, Run } from './index.js';

/** A `Client` that keeps jobs in memory, for tests. Time stands still: jobs wait until `work`, whatever their delays. */
export class Fake extends Client {
  constructor();
  /** What was pushed, as the documents of the API, each with its `topic`. */
  pushed(topic?: string): Record<string, any>[];
  /** From now on the function does each job of the topic when it is pushed. */
  inline(topic: string, run: Run): void;
  /** Does what waits in the topic, and returns. */
  work(topic: string, run: Run): Promise<void>;
  /** What has happened so far. */
  events(filter?: EventFilter): Promise<AsyncGenerator<Event, void, void>>;
}
