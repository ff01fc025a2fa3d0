<?php

namespace Gristmill;

/** A job of a `pushMany` that has options of its own. */
final class NewJob
{
    public readonly array $options;

    public function __construct(public readonly mixed $body, mixed ...$options)
    {
        $this->options = $options;
    }
}
