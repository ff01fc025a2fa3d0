<?php

namespace Gristmill;

/** One call of `work`. PHP runs one job at a time, so a process of its own extends the lease. */
final class Worker
{
    /** How often a worker that waits for jobs looks whether it is stopped. */
    private const WAIT_MS = 2000;

    /** To the process that extends leases. */
    private $heart = null;
    private bool $isCancelled = false;
    private int $leaseMs;

    public function __construct(private Http $http, private string $tenant, private string $topic, float $lease, private \Closure $isStopped)
    {
        $this->leaseMs = (int) round($lease * 1000);
    }

    public function run(callable $run, ?string $name): void
    {
        $this->startHeart();
        $asked = ['lease_ms' => $this->leaseMs, 'wait_ms' => self::WAIT_MS, 'worker' => $name ?? 'php-' . getmypid()];
        try {
            while (!($this->isStopped)()) {
                try {
                    [$answer] = $this->http->call('POST', "$this->tenant/topics/$this->topic/claim", $asked, tries: 1);
                } catch (Error $error) {
                    if (!$error->isTemporary() && $error->status < 500) {
                        throw $error;
                    }
                    error_log("gristmill: no claim: {$error->getMessage()}");
                    Http::sleep(max(1, $error->retryAfter));
                    continue;
                }
                foreach ($answer['claims'] as $claim) {
                    $this->do($claim, $run);
                }
            }
        } finally {
            $this->heart = null; // Its end of the pipe closes, and so it ends.
        }
    }

    private function do(array $claim, callable $run): void
    {
        [$this->isCancelled, $end] = [false, ['release' => new \stdClass()]];
        if (!($this->isStopped)()) {
            $this->beat($claim['lease']);
            $end = (new Job($claim, $this->isCancelled(...)))->settlement($run);
            $this->beat('');
        }
        try {
            $this->settle($claim['lease'], $end);
        } catch (Error $error) {
            error_log("gristmill: job {$claim['job']['spec']['id']} is not settled: {$error->getMessage()}");
            try { // Such as a result that is too large.
                $this->settle($claim['lease'], ['retry' => ['error' => ['code' => $error->problem, 'message' => $error->detail]]]);
            } catch (Error) {
            }
        }
    }

    private function settle(string $lease, array $end): void
    {
        $this->http->call('POST', "$this->tenant/leases/settle", ['settlements' => [['lease' => $lease] + $end]]);
    }

    /** Says which lease is to be extended from now on. */
    private function beat(string $lease): void
    {
        if ($this->heart) {
            fwrite($this->heart, "$lease\n");
            while ($lease === '' && !in_array(fgets($this->heart), ["\n", false], true)); // words about the job that has ended
        }
    }

    private function isCancelled(): bool
    {
        $reads = [$this->heart];
        [$none, $others] = [[], []];
        if (!$this->isCancelled && $this->heart && stream_select($reads, $none, $others, 0)) {
            $this->isCancelled = fgets($this->heart) !== false;
        }
        return $this->isCancelled;
    }

    private function startHeart(): void
    {
        if (!function_exists('pcntl_fork')) {
            return; // README: without pcntl, give jobs a lease that is long enough.
        }
        [$this->heart, $mine] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        if (pcntl_fork() !== 0) {
            return;
        }
        $this->heart = null;
        pcntl_signal(SIGTERM, SIG_IGN);
        pcntl_signal(SIGINT, SIG_IGN);
        $lease = '';
        while (true) {
            [$reads, $none, $others] = [[$mine], [], []];
            if (stream_select($reads, $none, $others, 0, $this->leaseMs * 1000 / 3)) {
                $line = fgets($mine);
                $line !== false || posix_kill(getmypid(), SIGKILL); // The worker has ended. No destructor may run here.
                $lease = trim($line);
                $lease !== '' || fwrite($mine, "\n");
            } elseif ($lease !== '') {
                try {
                    [$answer] = $this->http->call('POST', "$this->tenant/leases/extend", ['leases' => [$lease], 'lease_ms' => $this->leaseMs], tries: 1);
                    $answer['extended'] === ['extended'] || fwrite($mine, "{$answer['extended'][0]}\n");
                } catch (Error) {
                    // The next one is soon.
                }
            }
        }
    }
}
