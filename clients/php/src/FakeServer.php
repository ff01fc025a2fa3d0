<?php

namespace Gristmill;

/** @internal In place of Http. */
final class FakeServer extends Http
{
    public bool $repeats = false;
    public array $pushed = [];
    public array $inline = [];
    public array $events = [];
    private array $views = [];

    public function __construct()
    {
    }

    public function call(string $method, string $path, ?array $document = null, array $headers = [], ?int $tries = null): array
    {
        $name = rawurldecode(explode('/', explode('?', $path)[0])[5]);
        if ($method === 'POST') {
            $document = json_decode(json_encode($document, JSON_THROW_ON_ERROR), true);
            $isList = isset($document['jobs']);
            $answers = array_map(fn ($job) => $this->push($name, $job), $isList ? $document['jobs'] : [$document]);
            return [$isList ? ['jobs' => $answers] : $answers[0], 1];
        }
        $view = $this->views[$name] ?? throw new Error('job-unknown', 'Not Found', "job $name was not pushed", 404);
        if ($method === 'GET') {
            return [$view, 1];
        }
        if ($view['state'] !== 'ready') {
            throw new Error('too-late', 'Conflict', "job $name is over", 409);
        }
        $this->say($name, 'job-cancelled', ['state' => 'finished', 'result' => ['outcome' => 'cancelled']]);
        return [['status' => 'gone'], 1];
    }

    public function waiting(string $topic): array
    {
        return array_filter($this->views, fn ($view) => $view['job']['topic'] === $topic && $view['state'] === 'ready');
    }

    /** One attempt, and further ones at once as long as the option `attempts` allows them. */
    public function run(string $id, callable $run): void
    {
        $job = $this->views[$id]['job'];
        $most = $job['attempts_max'] ?? 1;
        for ($attempt = 1; $attempt <= $most; $attempt++) {
            $end = (new Job(self::claim($id, $job, $attempt, $most)))->settlement($run);
            if (isset($end['ack'])) {
                $result = ['outcome' => 'complete', 'output' => ((array) $end['ack'])['result'] ?? null];
                $this->say($id, 'job-completed', ['state' => 'finished', 'result' => $result]);
                return;
            }
            if (isset($end['snooze_ms'])) {
                $this->say($id, 'job-snoozed', []);
                return;
            }
            if (isset($end['bury']) || $attempt === $most) {
                $failure = ['reason' => isset($end['bury']) ? 'rejected' : 'failed'] + ($end['bury'] ?? $end['retry'])['error'];
                $this->say($id, 'job-dead', ['state' => 'dead', 'last_failure' => $failure]);
                return;
            }
        }
    }

    private function push(string $topic, array $document): array
    {
        $job = ['topic' => $topic] + $document;
        foreach ($this->waiting($topic) as $id => $view) {
            if (isset($job['unique']) && $job['unique'] === ($view['job']['unique'] ?? null)) {
                return ['id' => $id, 'status' => 'duplicate'];
            }
        }
        $id = $job['id'] ?? 'fake-' . count($this->views) + 1;
        $this->pushed[] = $job;
        $this->views[$id] = ['id' => $id, 'job' => $job];
        $this->say($id, 'job-pushed', ['state' => 'ready']);
        if (isset($this->inline[$topic])) {
            $this->run($id, $this->inline[$topic]);
        }
        return ['id' => $id, 'status' => 'stored'];
    }

    private function say(string $id, string $kind, array $changed): void
    {
        $this->views[$id] = $changed + $this->views[$id];
        $this->events[] = ['kind' => $kind, 'topic' => $this->views[$id]['job']['topic'], 'job' => $id];
    }

    /** What a worker would get for the job. */
    private static function claim(string $id, array $job, int $attempt, int $most): array
    {
        $metadata = $job['metadata'] ?? [];
        $body = isset($job['body_base64']) ? ['base64' => $job['body_base64']] : Payload::encode($job['body']);
        $pairs = array_map(null, array_keys($metadata), array_values($metadata));
        $spec = ['id' => $id, 'topic' => $job['topic'], 'key' => $job['key'] ?? null, 'body' => $body, 'metadata' => $pairs];
        return ['attempt' => $attempt, 'attempts_max' => $most, 'previous' => null, 'traceparent' => $metadata['traceparent'] ?? null, 'job' => ['spec' => $spec]];
    }
}
