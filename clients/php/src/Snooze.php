<?php

namespace Gristmill;

/** Run the job again after so many seconds, with no attempt used. */
final class Snooze extends \Exception
{
    public function __construct(public readonly float $after)
    {
        parent::__construct("again in $after s");
    }
}
