;; Items of a component: two components inside it, one of which passes the other BYTES bytes of text with each `$take`, from a
;; memory of PAGES pages. It runs RUN when it starts. The tests put something in place of the three names.
(component $taker
  (core module $m (memory (export "m") PAGES)
    (func (export "take") (param i32 i32))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 0))
  (core instance $i (instantiate $m))
  (func (export "take") (param "text" string)
    (canon lift (core func $i "take") (memory (core memory $i "m")) (realloc (core func $i "realloc")))))
(component $giver
  (import "take" (func $take (param "text" string)))
  (core module $m (memory (export "m") PAGES))
  (core instance $i (instantiate $m))
  (core func $take (canon lower (func $take) (memory (core memory $i "m"))))
  (core module $run (import "" "take" (func $import (param i32 i32)))
    (func $take (call $import (i32.const 0) (i32.const BYTES)))
    (func $start RUN) (start $start))
  (core instance (instantiate $run (with "" (instance (export "take" (func $take)))))))
(instance $taken (instantiate $taker))
(instance (instantiate $giver (with "take" (func $taken "take"))))
