<?php

namespace Gristmill;

/** A claimed job. */
final class Job
{
    public readonly string $id;
    public readonly string $topic;
    public readonly ?string $key;
    public readonly array $metadata;
    public readonly int $attempt;
    public readonly int $attemptsMax;
    /** Why the last attempt failed. */
    public readonly ?string $previous;
    public readonly ?string $traceparent;
    private array $payload;

    /** @internal */
    public function __construct(array $claim, private ?\Closure $isCancelled = null)
    {
        ['id' => $this->id, 'topic' => $this->topic, 'key' => $this->key, 'body' => $this->payload, 'metadata' => $pairs] = $claim['job']['spec'];
        ['attempt' => $this->attempt, 'attempts_max' => $this->attemptsMax, 'previous' => $this->previous, 'traceparent' => $this->traceparent] = $claim;
        $this->metadata = array_column($pairs, 1, 0);
    }

    /** What its JSON says (objects as arrays), or a text, or bytes. */
    public function body(): mixed
    {
        return Payload::decode($this->payload);
    }

    /** There is no point in going on: the job was cancelled, or another worker has it. */
    public function isCancelled(): bool
    {
        return $this->isCancelled !== null && ($this->isCancelled)();
    }

    /** @internal Runs the function, and says how the attempt ended. */
    public function settlement(callable $run): array
    {
        try {
            $value = $run($this);
            return ['ack' => $value === null ? new \stdClass() : ['result' => Payload::encode($value)]];
        } catch (Snooze $it) {
            return ['snooze_ms' => (int) round($it->after * 1000)];
        } catch (\Throwable $it) {
            $code = $it instanceof Retry || $it instanceof Reject ? $it->reason : $it::class;
            $failure = ['error' => ['code' => $code, 'message' => $it->getMessage()]];
            if ($it instanceof Retry && $it->after !== null) {
                $failure['after_ms'] = (int) round($it->after * 1000);
            }
            return $it instanceof Reject ? ['bury' => $failure] : ($this->isCancelled() ? ['release' => new \stdClass()] : ['retry' => $failure]);
        }
    }
}
