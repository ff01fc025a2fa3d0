;; WASI preview 1, as core modules import it, in terms of what a handler may import.
;;
;; Time is the store's, in steps of a millisecond. A sleep ends at once and moves the module's clock on. Random numbers are
;; `wasi:random`'s, which a topic must be granted. What is printed becomes log lines of the job. There are no arguments, no
;; environment, no files and no sockets. Of all this, only what a module calls ends up in its component.
(module
  (import "env" "memory" (memory 0))
  (import "gristmill:job/context@0.1.0" "now" (func $now (result i64)))
  (import "wasi:random/random@0.2.0" "get-random-u64" (func $random (result i64)))
  (import "wasi:cli/exit@0.2.0" "exit" (func $exit (param i32)))
  (import "wasi:cli/stdout@0.2.0" "get-stdout" (func $get_stdout (result i32)))
  (import "wasi:cli/stderr@0.2.0" "get-stderr" (func $get_stderr (result i32)))
  (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush"
    (func $write (param i32 i32 i32 i32)))

  (global $slept (mut i64) (i64.const 0))      ;; nanoseconds
  (global $stdout (mut i32) (i32.const 0))     ;; handles; 0 until the first write
  (global $stderr (mut i32) (i32.const 0))

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

  (func (export "proc_exit") (param $code i32)
    (call $exit (i32.ne (local.get $code) (i32.const 0)))
    unreachable)
  (func (export "sched_yield") (result i32) (i32.const 0))

  ;; No arguments, no environment: none, of no bytes.
  (func (export "args_get") (param i32 i32) (result i32) (i32.const 0))
  (func (export "args_sizes_get") (param i32 i32) (result i32)
    (i32.store (local.get 0) (i32.const 0)) (i32.store (local.get 1) (i32.const 0)) (i32.const 0))
  (func (export "environ_get") (param i32 i32) (result i32) (i32.const 0))
  (func (export "environ_sizes_get") (param i32 i32) (result i32)
    (i32.store (local.get 0) (i32.const 0)) (i32.store (local.get 1) (i32.const 0)) (i32.const 0))

  ;; Standard output and error are pipes one may write to; nothing else is open (8: EBADF).
  (func (export "fd_fdstat_get") (param $fd i32) (param $out i32) (result i32)
    (if (i32.or (i32.eqz (local.get $fd)) (i32.gt_u (local.get $fd) (i32.const 2))) (then (return (i32.const 8))))
    (i64.store (local.get $out) (i64.const 0))
    (i64.store offset=8 (local.get $out) (i64.const 64))
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
  (func (export "fd_read") (param i32 i32 i32 i32) (result i32) (i32.const 8))
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
