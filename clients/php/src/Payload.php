<?php

namespace Gristmill;

/** Bodies and results on their way. Strings that are no UTF-8 are bytes. */
final class Payload
{
    public static function isBytes(mixed $value): bool
    {
        return is_string($value) && !preg_match('//u', $value);
    }

    public static function encode(mixed $value): array
    {
        if (self::isBytes($value)) {
            return ['base64' => base64_encode($value), 'content_type' => 'application/octet-stream'];
        }
        $text = json_encode($value, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION);
        return ['text' => $text, 'content_type' => 'application/json'];
    }

    public static function decode(?array $payload): mixed
    {
        if (isset($payload['base64'])) {
            return base64_decode($payload['base64']);
        }
        $isJson = str_starts_with($payload['content_type'] ?? '', 'application/json');
        return $isJson ? json_decode($payload['text'], true, 512, JSON_THROW_ON_ERROR) : $payload['text'] ?? null;
    }
}
