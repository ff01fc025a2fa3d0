<?php

namespace Gristmill;

/** A client of one tenant: push, wait, events, work, cancel. */
class Client
{
    /** Jobs in a request. */
    private const BATCH = 1000;
    /** Seconds. The server sends a comment every 15, so a stream that is silent for longer is dead. */
    private const QUIET = 45;

    protected Http $http;
    private string $tenant;
    private bool $isStopped = false;

    /** Server and token are `$GRISTMILL_SERVER` (or http://127.0.0.1:7331) and `$GRISTMILL_TOKEN`, unless they are given. */
    public function __construct(?string $server = null, ?string $token = null, string $tenant = 'default', int $tries = 5)
    {
        $server ??= getenv('GRISTMILL_SERVER') ?: 'http://127.0.0.1:7331';
        $this->http = new Http($server, $token ?? (getenv('GRISTMILL_TOKEN') ?: null), $tries);
        $this->tenant = '/v1/tenants/' . rawurlencode($tenant);
    }

    /**
     * Pushes a job whose body is `$body` as JSON, or bytes: a string that is no UTF-8.
     *
     * Options: `delay`, `ttl`, `keep_result` (seconds), `at` (DateTimeInterface, or seconds since 1970), `key`, `unique`, `priority`, `after`
     * (ids, or what `push` returned), `after_failed`, `attempts`, `id`, `metadata`, `traceparent`, `batch`, `open`, `content_type`.
     */
    public function push(string $topic, mixed $body, mixed ...$options): Pushed
    {
        return $this->send($topic, [self::fields($body, $options)], false)[0];
    }

    /**
     * Pushes a job for each body, or NewJob. Each request of up to 1000 jobs is stored as a whole.
     *
     * @return Pushed[]
     */
    public function pushMany(string $topic, iterable $bodies, mixed ...$options): array
    {
        $jobs = [];
        foreach ($bodies as $it) {
            $jobs[] = $it instanceof NewJob ? self::fields($it->body, $it->options + $options) : self::fields($it, $options);
        }
        return array_merge(...array_map(fn ($some) => $this->send($topic, $some, true), array_chunk($jobs, self::BATCH)));
    }

    /** The end of a job, by its id or what `push` returned. It has the result if `keep_result` or the topic keeps it. */
    public function wait(string|Pushed $job, float $timeout = 60): End
    {
        for ($until = hrtime(true) + $timeout * 1e9; ;) {
            $left = max(0, (int) ceil(($until - hrtime(true)) / 1e6));
            [$view] = $this->http->call('GET', $this->path($job) . '?wait_ms=' . min($left, 30_000));
            if ($view['state'] === 'finished' || $view['state'] === 'dead') {
                $outcome = $view['result']['outcome'] ?? $view['ended']['outcome'] ?? $view['state'];
                return new End($outcome, Payload::decode($view['result']['output'] ?? null), $view['result']['failure'] ?? $view['last_failure'] ?? null);
            }
            if ($left === 0) {
                throw new Error('wait-timeout', 'Not over', "job {$view['id']} is {$view['state']} after $timeout s");
            }
        }
    }

    /** `gone` if the job waited, `stopping` if it runs. */
    public function cancel(string|Pushed|Job $job): string
    {
        return $this->http->call('DELETE', $this->path($job))[0]['status'];
    }

    /**
     * What happens from now on, as arrays with `kind`. After a broken connection goes on with `['kind' => 'reconnected']`: events between may
     * be missing.
     */
    public function events(?string $topic = null, string|Pushed|null $job = null, array $kinds = []): \Iterator
    {
        $asked = ['topic' => $topic, 'job' => $job?->id ?? $job, 'kind' => implode(',', $kinds)];
        $path = "$this->tenant/events?" . http_build_query(array_filter($asked));
        return $this->listen($path, $this->http->open('GET', $path, null, [], self::QUIET));
    }

    private function listen(string $path, $stream): \Generator
    {
        while (true) {
            $kind = '';
            while ($stream && ($line = fgets($stream)) !== false) {
                [$name, $value] = explode(': ', rtrim($line, "\n"), 2) + [1 => ''];
                $kind = $name === 'event' ? $value : $kind;
                if ($name === 'data') {
                    yield ['kind' => $kind] + json_decode($value, true);
                }
            }
            Http::sleep(1);
            try {
                $stream = $this->http->open('GET', $path, null, [], self::QUIET);
                yield ['kind' => 'reconnected'];
            } catch (Error $error) {
                $stream = $error->isTemporary() ? null : throw $error;
            }
        }
    }

    /**
     * Works the jobs of a topic with `handler = "external"` until `stop` or SIGTERM; then the job that runs is ended and settled.
     *
     * The function gets a Job; what it returns is the result. It throws Snooze, Retry or Reject; anything else that it throws is a retry.
     */
    public function work(string $topic, callable $run, float $lease = 60, ?string $name = null): void
    {
        if (function_exists('pcntl_signal')) {
            pcntl_async_signals(true);
            $old = pcntl_signal_get_handler(SIGTERM);
            pcntl_signal(SIGTERM, $this->stop(...));
        }
        try {
            (new Worker($this->http, $this->tenant, rawurlencode($topic), $lease, fn () => $this->isStopped))->run($run, $name);
        } finally {
            isset($old) && pcntl_signal(SIGTERM, $old);
        }
    }

    /** Ends `work`, now or as soon as it is called: no job is claimed any more. */
    public function stop(): void
    {
        $this->isStopped = true;
    }

    private function send(string $topic, array $jobs, bool $isList): array
    {
        [$headers, $made] = [['Idempotency-Key: ' . bin2hex(random_bytes(16))], []];
        if ($this->http->repeats && array_filter($jobs, fn ($job) => isset($job['id']) || isset($job['unique']))) {
            $headers = []; // That key and these exclude each other: ids tell a repeated push from another one's.
            foreach ($jobs as &$job) {
                $job['id'] ??= $made[] = bin2hex(random_bytes(16));
            }
        }
        $path = "$this->tenant/topics/" . rawurlencode($topic) . '/jobs';
        [$answer, $tried] = $this->http->call('POST', $path, $isList ? ['jobs' => array_values($jobs)] : $jobs[0], $headers);
        foreach ($answer['warnings'] ?? [] as $warning) {
            error_log("gristmill: $warning");
        }
        $stored = $tried > 1 ? $made : []; // by an earlier try
        $pushed = fn ($it) => new Pushed($it['id'], in_array($it['id'], $stored, true) ? 'stored' : $it['status'], $it['problem'] ?? null);
        return array_map($pushed, $isList ? $answer['jobs'] : [$answer]);
    }

    /** A job as the API takes it. */
    private static function fields(mixed $body, array $options): array
    {
        $job = Payload::isBytes($body) ? ['body_base64' => base64_encode($body)] : ['body' => $body];
        foreach (array_filter($options, fn ($value) => $value !== null) as $name => $value) {
            match ($name) {
                'delay', 'ttl', 'keep_result' => $job["{$name}_ms"] = (int) round($value * 1000),
                'at' => $job['at_ms'] = (int) round(($value instanceof \DateTimeInterface ? (float) $value->format('U.u') : $value) * 1000),
                'after' => $job['after'] = array_map(fn ($it) => $it->id ?? $it, $value),
                'attempts' => $job['attempts_max'] = $value,
                'traceparent' => $job['metadata'] = ['traceparent' => $value] + ($job['metadata'] ?? []),
                'metadata' => $job['metadata'] = ($job['metadata'] ?? []) + $value,
                default => $job[$name] = $value,
            };
        }
        return $job;
    }

    private function path(string|Pushed|Job $job): string
    {
        return "$this->tenant/jobs/" . rawurlencode($job->id ?? $job);
    }
}
