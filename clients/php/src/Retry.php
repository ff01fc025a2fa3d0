<?php

namespace Gristmill;

/** The attempt failed; the next one comes after so many seconds, or by the topic's backoff. */
final class Retry extends \Exception
{
    public function __construct(string $message = '', public readonly string $reason = 'retry', public readonly ?float $after = null)
    {
        parent::__construct($message);
    }
}
