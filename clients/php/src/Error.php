<?php

namespace Gristmill;

/** What the server refused, by its problem document. `status` is 0 without an answer; then `problem` is `unreachable` or `wait-timeout`. */
final class Error extends \RuntimeException
{
    public function __construct(
        /** The `code` of the problem document. An exception's own code is a number. */
        public readonly string $problem,
        public readonly string $title,
        public readonly string $detail,
        public readonly int $status = 0,
        public readonly int $retryAfter = 0,
    ) {
        parent::__construct("$problem: $detail", $status);
    }

    /** Whether another try may go better. */
    public function isTemporary(): bool
    {
        return in_array($this->status, [429, 502, 503, 504], true) || $this->problem === 'unreachable';
    }
}
