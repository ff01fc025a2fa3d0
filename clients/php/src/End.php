<?php

namespace Gristmill;

/** How a job ended: `outcome` is `complete`, `dead`, `expired`, `cancelled` or `deleted`; `failure` has `reason`, `code`, `message`. */
final class End
{
    public function __construct(public readonly string $outcome, public readonly mixed $result, public readonly ?array $failure)
    {
    }
}
