<?php

namespace Gristmill;

/** The job can never succeed: it is dead at once. `reason` is the code that operators see. */
final class Reject extends \Exception
{
    public function __construct(string $message = '', public readonly string $reason = 'reject')
    {
        parent::__construct($message);
    }
}
