;; WASI preview 1, as core modules import it, in terms of what a handler may import.
;;
;; Time is the store's, in steps of a millisecond. A sleep ends at once and moves the module's clock on. Random numbers are
;; `wasi:random`'s, which a topic must be granted. What is printed becomes log lines of the job, or the result of a program; standard
;; input, the arguments and the environment are a program's, and a handler finds none but the environment that its topic grants.
;; There are no files and no sockets. Of all this, only what a module calls ends up in its component.
;;
;; The standard adapter keeps its state in pages that it adds to the module's memory. Go takes such pages for its own, so this one
;; has no memory: what a call returns goes where the module wants it.
(module
  (import "env" "memory" (memory 0))
  (import "__main_module__" "_start" (func $start))
  (import "gristmill:preview1/program" "arguments-size" (func $arguments_size (result i64)))
  (import "gristmill:preview1/program" "arguments" (func $arguments (param i32)))
  (import "gristmill:preview1/program" "environment-size" (func $environment_size (result i64)))
  (import "gristmill:preview1/program" "environment" (func $environment (param i32)))
  (import "gristmill:job/context@0.1.0" "now" (func $now (result i64)))
  (import "wasi:random/random@0.2.0" "get-random-u64" (func $random (result i64)))
  (import "wasi:cli/exit@0.2.0" "exit-with-code" (func $exit (param i32)))
  (import "wasi:cli/stdin@0.2.0" "get-stdin" (func $get_stdin (result i32)))
  (import "wasi:cli/stdout@0.2.0" "get-stdout" (func $get_stdout (result i32)))
  (import "wasi:cli/stderr@0.2.0" "get-stderr" (func $get_stderr (result i32)))
  (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush"
    (func $write (param i32 i32 i32 i32)))
  (import "wasi:io/streams@0.2.0" "[method]input-stream.blocking-read" (func $read (param i32 i64 i32)))

  (global $slept (mut i64) (i64.const 0))      ;; nanoseconds
  (global $stdout (mut i32) (i32.const 0))     ;; handles; 0 until the first write
  (global $stderr (mut i32) (i32.const 0))
  (global $stdin (mut i32) (i32.const 0))

  ;; Where the bytes go that a call returns: into the module's own buffer, which has room for them.
  (global $buffer (mut i32) (i32.const 0))
  (func (export "cabi_import_realloc") (param i32 i32 i32 i32) (result i32) (global.get $buffer))

  ;; A program is called by this.
  (func (export "wasi:cli/run@0.2.0#run") (result i32)
    (call $start)
    (i32.const 0))

  ;; Nanoseconds since 1970, on the module's clock.
  (func $time (result i64)
    (i64.add (i64.mul (call $now) (i64.const 1000000)) (global.get $slept)))

  (func (export "clock_time_get") (param $clock i32) (param $precision i64) (param $out i32) (result i32)
    (i64.store (local.get $out) (call $time))
    (i32.const 0))
  (func (export "clock_res_get") (param $clock i32) (param $out i32) (result i32)
    (i64.store (local.get $out) (i64.const 1000000))
    (i32.const 0))

  (func (export "random_get") (param $p i32) (param $n i32) (result i32)
    (local $word i64)
    (block $done
      (loop $words
        (br_if $done (i32.lt_u (local.get $n) (i32.const 8)))
        (i64.store align=1 (local.get $p) (call $random))
        (local.set $p (i32.add (local.get $p) (i32.const 8)))
        (local.set $n (i32.sub (local.get $n) (i32.const 8)))
        (br $words)))
    (local.set $word (call $random))
    (block $done
      (loop $bytes
        (br_if $done (i32.eqz (local.get $n)))
        (i64.store8 (local.get $p) (local.get $word))
        (local.set $word (i64.shr_u (local.get $word) (i64.const 8)))
        (local.set $p (i32.add (local.get $p) (i32.const 1)))
        (local.set $n (i32.sub (local.get $n) (i32.const 1)))
        (br $bytes)))
    (i32.const 0))

  ;; The stream of a file descriptor; 0 if it is neither standard output nor standard error.
  (func $stream (param $fd i32) (result i32)
    (if (i32.eq (local.get $fd) (i32.const 1))
      (then
        (if (i32.eqz (global.get $stdout)) (then (global.set $stdout (call $get_stdout))))
        (return (global.get $stdout))))
    (if (i32.eq (local.get $fd) (i32.const 2))
      (then
        (if (i32.eqz (global.get $stderr)) (then (global.set $stderr (call $get_stderr))))
        (return (global.get $stderr))))
    (i32.const 0))

  ;; Writes in pieces of 4096 bytes, the most that one call takes. The answer of 12 bytes needs a place in the module's
  ;; memory: it gets one near the bottom, and what stood there is put back.
  (func $write_all (param $stream i32) (param $p i32) (param $n i32)
    (local $piece i32) (local $first i64) (local $second i32)
    (local.set $first (i64.load (i32.const 16)))
    (local.set $second (i32.load (i32.const 24)))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $n)))
        (local.set $piece
          (select (local.get $n) (i32.const 4096) (i32.lt_u (local.get $n) (i32.const 4096))))
        (call $write (local.get $stream) (local.get $p) (local.get $piece) (i32.const 16))
        (i64.store (i32.const 16) (local.get $first))
        (i32.store (i32.const 24) (local.get $second))
        (local.set $p (i32.add (local.get $p) (local.get $piece)))
        (local.set $n (i32.sub (local.get $n) (local.get $piece)))
        (br $next))))

  (func (export "fd_write") (param $fd i32) (param $iov i32) (param $n i32) (param $out i32) (result i32)
    (local $stream i32) (local $sum i32)
    (local.set $stream (call $stream (local.get $fd)))
    (if (i32.eqz (local.get $stream)) (then (return (i32.const 8))))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $n)))
        (call $write_all (local.get $stream) (i32.load (local.get $iov)) (i32.load offset=4 (local.get $iov)))
        (local.set $sum (i32.add (local.get $sum) (i32.load offset=4 (local.get $iov))))
        (local.set $iov (i32.add (local.get $iov) (i32.const 8)))
        (local.set $n (i32.sub (local.get $n) (i32.const 1)))
        (br $next)))
    (i32.store (local.get $out) (local.get $sum))
    (i32.const 0))

  ;; The first subscription is answered. One to a clock (tag 0) ends at once, and the module's clock moves on.
  (func (export "poll_oneoff") (param $in i32) (param $out i32) (param $n i32) (param $events i32) (result i32)
    (local $wait i64)
    (if (i32.eqz (local.get $n)) (then (return (i32.const 28))))
    (if (i32.eqz (i32.load8_u offset=8 (local.get $in)))
      (then
        (local.set $wait (i64.load offset=24 (local.get $in)))
        (if (i32.and (i32.load16_u offset=40 (local.get $in)) (i32.const 1))
          (then (local.set $wait (i64.sub (local.get $wait) (call $time)))))
        (if (i64.gt_s (local.get $wait) (i64.const 0))
          (then (global.set $slept (i64.add (global.get $slept) (local.get $wait)))))))
    (i64.store (local.get $out) (i64.load (local.get $in)))
    (i32.store16 offset=8 (local.get $out) (i32.const 0))
    (i32.store8 offset=10 (local.get $out) (i32.load8_u offset=8 (local.get $in)))
    (i32.store (local.get $events) (i32.const 1))
    (i32.const 0))

  ;; A code has 8 bits, as on Unix.
  (func (export "proc_exit") (param $code i32)
    (call $exit (i32.and (local.get $code) (i32.const 255)))
    unreachable)
  (func (export "sched_yield") (result i32) (i32.const 0))

  ;; Reads into the first buffer that has room. At the end of the input it reads nothing. The answer gets its place as in
  ;; `write_all`.
  (func (export "fd_read") (param $fd i32) (param $iov i32) (param $n i32) (param $out i32) (result i32)
    (local $first i64) (local $second i32) (local $read i32)
    (if (local.get $fd) (then (return (i32.const 8))))
    (block $found
      (loop $next
        (if (i32.eqz (local.get $n))
          (then (i32.store (local.get $out) (i32.const 0)) (return (i32.const 0))))
        (br_if $found (i32.load offset=4 (local.get $iov)))
        (local.set $iov (i32.add (local.get $iov) (i32.const 8)))
        (local.set $n (i32.sub (local.get $n) (i32.const 1)))
        (br $next)))
    (if (i32.eqz (global.get $stdin)) (then (global.set $stdin (call $get_stdin))))
    (local.set $first (i64.load (i32.const 16)))
    (local.set $second (i32.load (i32.const 24)))
    (global.set $buffer (i32.load (local.get $iov)))
    (call $read (global.get $stdin) (i64.extend_i32_u (i32.load offset=4 (local.get $iov))) (i32.const 16))
    (if (i32.eqz (i32.load8_u (i32.const 16))) (then (local.set $read (i32.load (i32.const 24)))))
    (i64.store (i32.const 16) (local.get $first))
    (i32.store (i32.const 24) (local.get $second))
    (i32.store (local.get $out) (local.get $read))
    (i32.const 0))

  ;; Writes how many texts there are, and their bytes with a zero after each.
  (func $sizes (param $size i64) (param $count i32) (param $bytes i32) (result i32)
    (i32.store (local.get $count) (i32.wrap_i64 (i64.shr_u (local.get $size) (i64.const 32))))
    (i32.store (local.get $bytes) (i32.wrap_i64 (local.get $size)))
    (i32.const 0))
  ;; Writes where each text begins, of those that were written to `$p`.
  (func $index (param $size i64) (param $pointers i32) (param $p i32) (result i32)
    (local $left i32)
    (local.set $left (i32.wrap_i64 (i64.shr_u (local.get $size) (i64.const 32))))
    (block $done
      (loop $texts
        (br_if $done (i32.eqz (local.get $left)))
        (i32.store (local.get $pointers) (local.get $p))
        (local.set $pointers (i32.add (local.get $pointers) (i32.const 4)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (loop $bytes
          (local.set $p (i32.add (local.get $p) (i32.const 1)))
          (br_if $bytes (i32.load8_u (i32.sub (local.get $p) (i32.const 1)))))
        (br $texts)))
    (i32.const 0))

  (func (export "args_sizes_get") (param $count i32) (param $bytes i32) (result i32)
    (call $sizes (call $arguments_size) (local.get $count) (local.get $bytes)))
  (func (export "args_get") (param $pointers i32) (param $p i32) (result i32)
    (local $kept i64)
    (local.set $kept (i64.load (i32.const 16)))
    (global.set $buffer (local.get $p))
    (call $arguments (i32.const 16))
    (i64.store (i32.const 16) (local.get $kept))
    (call $index (call $arguments_size) (local.get $pointers) (local.get $p)))
  (func (export "environ_sizes_get") (param $count i32) (param $bytes i32) (result i32)
    (call $sizes (call $environment_size) (local.get $count) (local.get $bytes)))
  (func (export "environ_get") (param $pointers i32) (param $p i32) (result i32)
    (local $kept i64)
    (local.set $kept (i64.load (i32.const 16)))
    (global.set $buffer (local.get $p))
    (call $environment (i32.const 16))
    (i64.store (i32.const 16) (local.get $kept))
    (call $index (call $environment_size) (local.get $pointers) (local.get $p)))

  ;; Standard input is a pipe one may read from (2), standard output and error are pipes one may write to (64); nothing else is open
  ;; (8: EBADF).
  (func (export "fd_fdstat_get") (param $fd i32) (param $out i32) (result i32)
    (if (i32.gt_u (local.get $fd) (i32.const 2)) (then (return (i32.const 8))))
    (i64.store (local.get $out) (i64.const 0))
    (i64.store offset=8 (local.get $out) (select (i64.const 64) (i64.const 2) (local.get $fd)))
    (i64.store offset=16 (local.get $out) (i64.const 0))
    (i32.const 0))
  (func (export "fd_advise") (param i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_allocate") (param i32 i64 i64) (result i32) (i32.const 8))
  (func (export "fd_close") (param i32) (result i32) (i32.const 8))
  (func (export "fd_datasync") (param i32) (result i32) (i32.const 8))
  (func (export "fd_fdstat_set_flags") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_fdstat_set_rights") (param i32 i64 i64) (result i32) (i32.const 8))
  (func (export "fd_filestat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_filestat_set_size") (param i32 i64) (result i32) (i32.const 8))
  (func (export "fd_filestat_set_times") (param i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_pread") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_prestat_dir_name") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "fd_prestat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_pwrite") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_readdir") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_renumber") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_seek") (param i32 i64 i32 i32) (result i32) (i32.const 8))
  (func (export "fd_sync") (param i32) (result i32) (i32.const 8))
  (func (export "fd_tell") (param i32 i32) (result i32) (i32.const 8))
  (func (export "path_create_directory") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_filestat_get") (param i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_filestat_set_times") (param i32 i32 i32 i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "path_link") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_open") (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32) (i32.const 8))
  (func (export "path_readlink") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_remove_directory") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_rename") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_symlink") (param i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_unlink_file") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "sock_accept") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "sock_recv") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "sock_send") (param i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "sock_shutdown") (param i32 i32) (result i32) (i32.const 8)))
