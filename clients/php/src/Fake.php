<?php

namespace Gristmill;

/** A Client that keeps jobs in memory, for tests. Time stands still: jobs wait until `work`, whatever their delays. */
final class Fake extends Client
{
    private FakeServer $server;

    public function __construct()
    {
        $this->http = $this->server = new FakeServer();
        parent::__construct('http://fake.invalid');
        $this->http = $this->server;
    }

    /** What was pushed, as the documents of the API, each with its `topic`. */
    public function pushed(?string $topic = null): array
    {
        return array_values(array_filter($this->server->pushed, fn ($job) => $topic === null || $job['topic'] === $topic));
    }

    /** From now on the function does each job of the topic when it is pushed. */
    public function inline(string $topic, callable $run): void
    {
        $this->server->inline[$topic] = $run;
    }

    /** Does what waits in the topic, and returns. */
    public function work(string $topic, callable $run, float $lease = 60, ?string $name = null): void
    {
        foreach ($this->server->waiting($topic) as $id => $_) {
            $this->server->run($id, $run);
        }
    }

    /** What has happened so far. */
    public function events(?string $topic = null, string|Pushed|null $job = null, array $kinds = []): \Iterator
    {
        $wanted = array_filter(['topic' => $topic, 'job' => $job?->id ?? $job]);
        $fits = fn ($event) => array_intersect_assoc($wanted, $event) == $wanted && (!$kinds || in_array($event['kind'], $kinds, true));
        return new \ArrayIterator(array_values(array_filter($this->server->events, $fits)));
    }
}
