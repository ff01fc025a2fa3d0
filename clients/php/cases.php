<?php

// Plays clients/cases.json against the server at $GRISTMILL_SERVER, and prints what came of each step, one a line.
//
//     php cases.php ../cases.json TENANT      # $GRISTMILL_FAULTY is a proxy that fails pushes

use Gristmill\Client;
use Gristmill\Error;
use Gristmill\Fake;
use Gristmill\Job;
use Gristmill\Payload;
use Gristmill\Reject;
use Gristmill\Retry;
use Gristmill\Snooze;

spl_autoload_register(fn ($class) => require __DIR__ . '/src/' . substr($class, strlen('Gristmill\\')) . '.php');

[, $file, $tenant] = $argv;
$fake = new Fake();
$clients = [
    '' => new Client(tenant: $tenant),
    'faulty' => new Client(getenv('GRISTMILL_FAULTY'), tenant: $tenant),
    'moved' => new Client(getenv('GRISTMILL_FAULTY') . '/moved', tenant: $tenant),
    'stranger' => new Client(token: 'gm_wrong', tenant: $tenant),
    'nowhere' => new Client('http://127.0.0.1:1', tenant: $tenant, tries: 2),
    'fake' => $fake,
];
$jobs = $streams = [];

function options(array $step, array $jobs): array
{
    $options = [];
    foreach ($step['options'] ?? [] as $name => $value) {
        match ($name) {
            'delay_ms' => $options['delay'] = $value / 1000,
            'keep_result_ms' => $options['keep_result'] = $value / 1000,
            'at_in_ms' => $options['at'] = microtime(true) + $value / 1000,
            'after' => $options['after'] = array_map(fn ($name) => $jobs[$name], $value),
            default => $options[$name] = $value,
        };
    }
    return $options;
}

function payload(string $name, mixed $value): array
{
    return $value === null ? [] : (Payload::isBytes($value) ? ['bytes' => base64_encode($value)] : [$name => $value]);
}

/** What a worker does with a job: `kind` says how it ends. Stops the worker after `until` jobs. */
function work(string $kind, ?array &$worked, ?int $until = null, ?Client $client = null): Closure
{
    $worked = [];
    return function (Job $job) use ($kind, &$worked, $until, $client) {
        $worked[] = payload('body', $job->body()) + ['attempt' => $job->attempt, 'key' => $job->key, 'traceparent' => $job->traceparent];
        if (count($worked) === $until) {
            $client->stop();
        }
        $isFirst = count($worked) === 1;
        switch (true) {
            case $kind === 'retry' && $isFirst:
                throw new Retry('once more', after: 0);
            case $kind === 'snooze' && $isFirst:
                throw new Snooze(0.1);
            case $kind === 'reject':
                throw new Reject('there is no address', 'no-address');
            case $kind === 'fail':
                throw new RuntimeException('broken');
            case $kind === 'cancelled':
                $client->cancel($job);
                for ($looks = 0; !$job->isCancelled() && $looks < 3000; $looks++) {
                    usleep(20_000);
                }
                throw new RuntimeException($job->isCancelled() ? 'cancelled' : 'no heartbeat');
            case $kind === 'sigterm':
                posix_kill(getmypid(), SIGTERM);
        }
        return $kind === 'large' ? str_repeat('x', 1 << 20) : $job->body();
    };
}

function play(array $step): array
{
    global $clients, $jobs, $streams, $fake, $tenant;
    $name = $step['client'] ?? '';
    $client = $clients[$name];
    $topic = $step['topic'] ?? '';
    switch ($step['do']) {
        case 'push':
            $body = isset($step['bytes']) ? base64_decode($step['bytes']) : $step['body'];
            $pushed = $client->push($topic, $body, ...options($step, $jobs));
            $same = array_search($pushed->id, array_map(fn ($job) => $job->id, $jobs), true);
            $jobs[$step['as']] = $pushed;
            return ['status' => $pushed->status] + ($same === false ? [] : ['is' => $same]);
        case 'push_many':
            $pushed = $client->pushMany($topic, $step['bodies'], ...options($step, $jobs));
            foreach ($pushed as $index => $job) {
                $jobs[$step['as'] . $index] = $job;
            }
            return ['statuses' => array_map(fn ($job) => $job->status, $pushed)];
        case 'wait':
            $end = $client->wait($jobs[$step['job']] ?? $step['job'], ($step['timeout_ms'] ?? 60_000) / 1000);
            $failure = $end->failure ? ['failure' => array_intersect_key($end->failure, ['reason' => 1, 'code' => 1, 'message' => 1])] : [];
            return ['outcome' => $end->outcome] + payload('result', $end->result) + $failure;
        case 'cancel':
            return ['cancelled' => $client->cancel($jobs[$step['job']])];
        case 'work':
            $client = $name ? $client : new Client(tenant: $tenant);
            $run = work($step['function'], $worked, $step['until'] ?? null, $client);
            $client->work($topic, $run, ($step['lease_ms'] ?? 60_000) / 1000);
            return ['worked' => $worked];
        case 'listen':
            $streams[$name] = $client->events($topic);
            return ['listening' => true];
        case 'hear':
            $kinds = [];
            foreach ($streams[$name] as $event) {
                if (($event['job'] ?? null) === $jobs[$step['job']]->id) {
                    $kinds[] = $event['kind'];
                }
                if (count($kinds) === $step['count']) {
                    break;
                }
            }
            sort($kinds);
            return ['kinds' => $kinds];
        case 'pushed':
            return ['pushed' => $fake->pushed($topic)];
        case 'inline':
            $fake->inline($topic, work($step['function'], $worked));
            return ['inline' => true];
    }
}

foreach (json_decode(file_get_contents($file), true)['cases'] as $case) {
    $jobs = [];
    foreach ($case['steps'] as $step) {
        try {
            $line = play($step);
        } catch (Error $error) {
            $line = ['error' => $error->problem, 'status' => $error->status];
            $line += preg_match('#http://[\d.:]*\d#', $error->detail, $named) ? ['address' => $named[0]] : [];
        }
        echo json_encode($line, JSON_THROW_ON_ERROR), "\n";
    }
}
