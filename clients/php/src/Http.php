<?php

namespace Gristmill;

/** Sends requests, each on a connection of its own. */
class Http
{
    /** Seconds. If the server asks for more patience, the caller gets its error. */
    private const MOST_WAIT = 60;

    public bool $repeats = true;

    public function __construct(private string $server, private ?string $token, private int $tries)
    {
        if (!preg_match('#^https?://[^/]#', $server)) {
            throw new \InvalidArgumentException("the address of a server begins with http:// or https://, not: $server");
        }
    }

    /** The answer's document, and how many tries it took. */
    public function call(string $method, string $path, ?array $document = null, array $headers = [], ?int $tries = null): array
    {
        for ($tried = 1; ; $tried++) {
            try {
                $text = stream_get_contents($stream = $this->open($method, $path, $document, $headers, 60));
                $isWhole = $text !== false && !stream_get_meta_data($stream)['timed_out'];
                return [$isWhole ? json_decode($text, true, 512, JSON_THROW_ON_ERROR) : throw $this->unreachable('half an answer'), $tried];
            } catch (Error | \JsonException $error) {
                $error = $error instanceof Error ? $error : $this->unreachable($error->getMessage());
                $wait = max(0.1 * 2 ** $tried * mt_rand(500, 1000) / 1000, $error->retryAfter);
                if ($tried >= ($tries ?? $this->tries) || !$error->isTemporary() || $wait > self::MOST_WAIT) {
                    throw $error;
                }
                self::sleep($wait);
            }
        }
    }

    /** The stream of an answer whose head has come. */
    public function open(string $method, string $path, ?array $document, array $headers, int $timeout)
    {
        $token = $this->token ? ["Authorization: Bearer $this->token"] : [];
        $lines = ['Content-Type: application/json', 'Connection: close', ...$token, ...$headers];
        $body = $document === null ? '' : json_encode($document, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_PRESERVE_ZERO_FRACTION);
        // Version 1.0: PHP reads chunks of 1.1 only in pieces of 8 KiB, and events would wait.
        $http = ['method' => $method, 'header' => $lines, 'content' => $body, 'timeout' => $timeout, 'ignore_errors' => true, 'protocol_version' => 1.0, 'follow_location' => 0];
        error_clear_last();
        $stream = @fopen(rtrim($this->server, '/') . $path, 'r', false, stream_context_create(['http' => $http]));
        if (!$stream) {
            throw $this->unreachable(error_get_last()['message'] ?? 'no connection');
        }
        $head = stream_get_meta_data($stream)['wrapper_data'];
        $status = (int) explode(' ', $head[0])[1];
        if ($status < 300) {
            return $stream;
        }
        $text = stream_get_contents($stream);
        $named = fn ($name) => trim(substr(current(preg_grep("/^$name:/i", $head)) ?: "$name:", strlen($name) + 1));
        $isProblem = str_starts_with($named('content-type'), 'application/problem+json'); // else it is a proxy's
        $said = $isProblem ? json_decode($text, true) : ['code' => 'no-problem-document', 'title' => $head[0], 'detail' => substr($text, 0, 1000)];
        if ($status < 400) {
            $said['detail'] = "the server redirects to {$named('location')}: name that address";
        }
        throw new Error($said['code'], $said['title'], $said['detail'], $status, (int) $named('retry-after'));
    }

    /** Sleeps for all of this time, also if a signal comes. */
    public static function sleep(float $seconds): void
    {
        for ($until = microtime(true) + $seconds; ($left = $until - microtime(true)) > 0;) {
            usleep((int) ($left * 1e6) + 1);
        }
    }

    private function unreachable(string $why): Error
    {
        // Without the user and the password of the address: they are nobody's business in a log.
        $server = substr(strrchr("@$this->server", '@'), 1);
        return new Error('unreachable', 'No answer', "failed to get an answer of the server at $server: $why; does it run there, with that scheme?");
    }
}
