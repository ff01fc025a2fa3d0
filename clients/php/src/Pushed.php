<?php

namespace Gristmill;

/** What became of a push: `status` is `stored`, `exists`, `duplicate` (`id` is the other job's) or, of many, `refused`. */
final class Pushed
{
    public function __construct(public readonly string $id, public readonly string $status, public readonly ?string $problem = null)
    {
    }
}
