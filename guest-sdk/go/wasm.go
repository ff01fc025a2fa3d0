//go:build wasip1

// The contract of wit/job.wit by hand: the component model's canonical ABI. A record in memory is a struct of the same
// fields, a string or list is its address and length, an option is a tag and the value, a variant a tag and a union.
// Go lays out the structs below as the ABI wants them; addresses have 32 bits.

package gristmill

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"structs"
	"sync"
	"time"
	"unsafe"
)

type wireList struct{ at, size uint32 }

type wireOptionList struct {
	some bool
	list wireList
}

type wireOptionU64 struct {
	some  bool
	value uint64
}

type wirePair struct{ name, value wireList }

type wirePayload struct {
	data        wireList
	contentType wireOptionList
}

type wireJob struct {
	_                           structs.HostLayout
	id, tenant, topic           wireList
	body                        wirePayload
	metadata                    wireList
	key                         wireOptionList
	attempt, maxAttempts        uint32
	enqueuedAt, dueAt, deadline uint64
	checkpoint                  wireOptionList
}

type wireNewJob struct {
	_            structs.HostLayout
	topic        wireList
	body         wirePayload
	metadata     wireList
	key          wireOptionList
	notBefore    wireOptionU64
	unique       wireOptionList
	priority     uint8
	uniqueWindow wireOptionU64
}

// The two parameters of enqueue-linked: what does not fit into registers lies in memory like a record.
type wireLinked struct {
	_           structs.HostLayout
	job         wireNewJob
	after       wireList
	afterFailed bool
	batch       wireOptionList
	open        bool
}

// result<outcome, failure>, once for each case. A tag is one byte and what follows it begins at the next multiple of 8.
type wireComplete struct {
	_               structs.HostLayout
	failed, snoozed uint64
	some            bool
	payload         wirePayload
}

type wireSnooze struct {
	_               structs.HostLayout
	failed, snoozed uint64
	wait            uint64
}

type wireFailure struct {
	_                structs.HostLayout
	failed, rejected uint64
	code, message    wireList
	contextSome      bool
	context          wirePayload
	after            wireOptionU64
}

// result<string, linked-error>
type wireEnqueued struct {
	_              structs.HostLayout
	failed         bool
	_              uint32
	idOrError      wireList // of an error, the first byte is its number
	limitOrProblem wireList
}

// result<_, checkpoint-error>
type wireCheckpointed struct {
	_             structs.HostLayout
	failed        bool
	_             [7]byte
	unavailable   bool
	_             [7]byte
	limitOrReason wireList
}

// result<option<list<u8>>, state-error>, or result<_, state-error>
type wireState struct {
	_          structs.HostLayout
	failed     bool
	_          [7]byte
	someOrKind uint8 // of an error, its number
	_          [3]byte
	state      wireList // of an error, the second half of this is the first one of its limit or reason
	rest       uint32
}

// result<response, http-error>
type wireAnswer struct {
	_            structs.HostLayout
	failed       bool
	_            [7]byte
	statusOrKind uint16 // of an error, the first byte is its number
	headers      wireList
	body, url    wireList
	_            uint32
}

//go:wasmimport gristmill:job/context@0.1.0 now
func hostNow() uint64

//go:wasmimport gristmill:job/context@0.1.0 fuel-remaining
func hostFuelRemaining() uint64

//go:wasmimport gristmill:job/context@0.1.0 is-cancelled
func hostCancelled() bool

//go:wasmimport gristmill:job/context@0.1.0 checkpoint
func wasmCheckpoint(state unsafe.Pointer, size uint32, answer unsafe.Pointer)

//go:wasmimport gristmill:job/context@0.1.0 progress
func wasmProgress(basisPoints uint32, some bool, note string)

//go:wasmimport gristmill:job/queue@0.1.0 enqueue-linked
func wasmEnqueue(job, answer unsafe.Pointer)

//go:wasmimport gristmill:job/state@0.1.0 get
func wasmState(answer unsafe.Pointer)

//go:wasmimport gristmill:job/state@0.1.0 set
func wasmSetState(some bool, state unsafe.Pointer, size uint32, answer unsafe.Pointer)

//go:wasmimport gristmill:job/http@0.1.0 send
func wasmSend(method, url string, headers unsafe.Pointer, count uint32, some bool, body unsafe.Pointer, size uint32, timed bool, timeout uint64, redirects uint32, answer unsafe.Pointer)

//go:wasmimport gristmill:job/log@0.1.0 emit
func wasmLog(level uint32, message string, fields unsafe.Pointer, size uint32)

//go:wasmimport gristmill:job/log@0.1.0 enabled
func wasmLogEnabled(level uint32) bool

//go:wasmimport gristmill:job/config@0.1.0 get
func wasmConfig(name string, answer unsafe.Pointer)

//go:wasmimport gristmill:job/config@0.1.0 secret
func wasmSecret(name string, answer unsafe.Pointer)

// The collector, when it starts or ends a cycle, asks for the time. While the host is in cabiRealloc it takes no calls, so
// the collector rests then: it is at work only while the handler is, outside of calls that answer with memory.
var gcPercent = debug.SetGCPercent(-1)

func startCollector() { debug.SetGCPercent(gcPercent) }

// stopCollector waits for the end of a cycle that is under way.
func stopCollector() { debug.SetGCPercent(-1) }

// turn is for goroutines that call the host at the same time: one lends, calls, reads and releases before the next.
var turn sync.Mutex

// borrow begins a turn; what it returns ends it.
func borrow() (giveBack func()) {
	turn.Lock()
	return func() {
		release()
		turn.Unlock()
	}
}

// ask makes a call that answers with memory.
func ask(call func()) {
	stopCollector()
	call()
	startCollector()
}

// lent holds, by address, all memory that the host knows of: the collector moves nothing, but frees what no Go pointer
// points to, and an address of 32 bits is none.
var lent = map[uint32]unsafe.Pointer{}

// release ends all loans. What the handler keeps of them has a Go pointer of its own.
func release() { clear(lent) }

func lend(at unsafe.Pointer) uint32 {
	lent[uint32(uintptr(at))] = at
	return uint32(uintptr(at))
}

func lendBytes(data []byte) wireList {
	return wireList{lend(unsafe.Pointer(unsafe.SliceData(data))), uint32(len(data))}
}

func lendText(text string) wireList {
	return wireList{lend(unsafe.Pointer(unsafe.StringData(text))), uint32(len(text))}
}

func lendOption(text string) wireOptionList {
	return wireOptionList{some: text != "", list: lendText(text)}
}

func lendPairs(pairs []Pair) wireList {
	list := make([]wirePair, len(pairs))
	for i, pair := range pairs {
		list[i] = wirePair{lendText(pair.Name), lendText(pair.Value)}
	}
	return wireList{lend(unsafe.Pointer(unsafe.SliceData(list))), uint32(len(list))}
}

func lendPayload(payload *Payload) wirePayload {
	return wirePayload{lendBytes(payload.Data), lendOption(payload.ContentType)}
}

// slice and text take over memory that the host got from cabiRealloc, without a copy: it is Go's, and stays for as long
// as a Go pointer points into it. The address of an empty list means nothing.
func slice[T any](list wireList) []T {
	if list.size == 0 {
		return nil
	}
	return unsafe.Slice((*T)(lent[list.at]), list.size)
}

func text(list wireList) string {
	if list.size == 0 {
		return ""
	}
	return unsafe.String((*byte)(lent[list.at]), list.size)
}

// optionText takes none for empty.
func optionText(option wireOptionList) string {
	if !option.some {
		return ""
	}
	return text(option.list)
}

// optionBytes of none is nil; of an empty list it is not.
func optionBytes(option wireOptionList) []byte {
	if !option.some {
		return nil
	}
	return append([]byte{}, slice[byte](option.list)...)
}

// empty is where blocks of no bytes are: any address that is aligned.
var empty uint64

//go:wasmexport cabi_realloc
func cabiRealloc(old unsafe.Pointer, oldSize, align, size uint32) unsafe.Pointer {
	if size == 0 {
		return unsafe.Pointer(&empty)
	}
	// Go aligns a block to the largest power of two, up to 8, that divides its size. A record's size is a multiple of its
	// alignment, and that is 8 at most.
	block := make([]byte, size)
	if oldSize > 0 {
		copy(block, unsafe.Slice((*byte)(old), oldSize))
		delete(lent, uint32(uintptr(old)))
	}
	at := unsafe.Pointer(unsafe.SliceData(block))
	lend(at)
	return at
}

//go:wasmexport gristmill:job/handler@0.1.0#handle
func wasmHandle(at unsafe.Pointer) unsafe.Pointer {
	job := readJob((*wireJob)(at))
	release()
	startCollector()
	end := attempt(handler, job)
	stopCollector()
	return writeEnding(end)
}

// Called once the host has read what wasmHandle returned.
//
//go:wasmexport cabi_post_gristmill:job/handler@0.1.0#handle
func wasmPostHandle(unsafe.Pointer) { release() }

// wireChecked is result<_, string>.
type wireChecked struct {
	_       structs.HostLayout
	failed  bool
	problem wireList
}

// Called once before a version serves: without a handler, it must not.
//
//go:wasmexport gristmill:job/self-test@0.1.0#check
func wasmCheck() unsafe.Pointer {
	checked := new(wireChecked)
	if handler == nil {
		*checked = wireChecked{failed: true, problem: lendText("no handler: call gristmill.Handle in an init function")}
	}
	lend(unsafe.Pointer(checked))
	return unsafe.Pointer(checked)
}

//go:wasmexport cabi_post_gristmill:job/self-test@0.1.0#check
func wasmPostCheck(unsafe.Pointer) { release() }

func readJob(wire *wireJob) *Job {
	job := &Job{
		ID:          text(wire.id),
		Tenant:      text(wire.tenant),
		Topic:       text(wire.topic),
		Body:        Payload{slice[byte](wire.body.data), optionText(wire.body.contentType)},
		Key:         optionText(wire.key),
		Attempt:     wire.attempt,
		MaxAttempts: wire.maxAttempts,
		EnqueuedAt:  fromMillis(wire.enqueuedAt),
		DueAt:       fromMillis(wire.dueAt),
		Deadline:    fromMillis(wire.deadline),
		Checkpoint:  optionBytes(wire.checkpoint),
	}
	for _, pair := range slice[wirePair](wire.metadata) {
		job.Metadata = append(job.Metadata, Pair{text(pair.name), text(pair.value)})
	}
	return job
}

func writeEnding(end ending) unsafe.Pointer {
	at := unsafe.Pointer(new(wireFailure)) // the largest case: the host reads that much of any
	switch {
	case end.failure != nil:
		*(*wireFailure)(at) = lendFailure(end)
	case end.snooze != nil:
		*(*wireSnooze)(at) = wireSnooze{snoozed: 1, wait: wholeMillis(time.Duration(*end.snooze))}
	case end.result != nil:
		*(*wireComplete)(at) = wireComplete{some: true, payload: lendPayload(end.result)}
	}
	lend(at)
	return at
}

func lendFailure(end ending) wireFailure {
	wire := wireFailure{failed: 1, code: lendText(end.failure.Code), message: lendText(end.message)}
	if end.failure.Rejected {
		wire.rejected = 1
	} else if wait := end.failure.Wait; wait != nil {
		wire.after = wireOptionU64{true, wholeMillis(*wait)}
	}
	if context := end.failure.Context; context != nil {
		wire.contextSome, wire.context = true, lendPayload(context)
	}
	return wire
}

func hostEnqueue(job *NewJob, body *Payload) (string, error) {
	defer borrow()()
	after := make([]wireList, len(job.AfterJobs))
	for i, id := range job.AfterJobs {
		after[i] = lendText(id)
	}
	linked := &wireLinked{
		after:       wireList{lend(unsafe.Pointer(unsafe.SliceData(after))), uint32(len(after))},
		afterFailed: job.RunAfterFailed,
		batch:       lendOption(job.Batch),
		open:        job.Open,
	}
	wire := &linked.job
	*wire = wireNewJob{
		topic:    lendText(job.Topic),
		body:     lendPayload(body),
		metadata: lendPairs(job.Metadata),
		key:      lendOption(job.Key),
		unique:   lendOption(job.Unique),
		priority: [...]uint8{Normal: 1, High: 0, Low: 2}[job.Priority],
	}
	if !job.NotBefore.IsZero() {
		wire.notBefore = wireOptionU64{true, toMillis(job.NotBefore)}
	}
	if job.UniqueWindow > 0 {
		wire.uniqueWindow = wireOptionU64{true, wholeMillis(job.UniqueWindow)}
	}
	answer := new(wireEnqueued)
	ask(func() { wasmEnqueue(unsafe.Pointer(linked), unsafe.Pointer(answer)) })
	if !answer.failed {
		return text(answer.idOrError), nil
	}
	limit := uint64(answer.limitOrProblem.size)<<32 | uint64(answer.limitOrProblem.at)
	switch uint8(answer.idOrError.at) {
	case 0:
		return "", ErrDenied
	case 1:
		return "", fmt.Errorf("%w of %d bytes", ErrTooLarge, limit)
	case 2:
		return "", fmt.Errorf("%w, which is %d", ErrTooMany, uint32(limit))
	case 3:
		return "", ErrUnknownTopic
	}
	return "", fmt.Errorf("%w: %s", ErrInvalidLinks, text(answer.limitOrProblem))
}

func hostCheckpoint(state []byte) error {
	defer borrow()()
	answer := new(wireCheckpointed)
	ask(func() {
		wasmCheckpoint(unsafe.Pointer(unsafe.SliceData(state)), uint32(len(state)), unsafe.Pointer(answer))
	})
	if !answer.failed {
		return nil
	}
	if answer.unavailable {
		return fmt.Errorf("%w: %s", ErrUnavailable, text(answer.limitOrReason))
	}
	limit := uint64(answer.limitOrReason.size)<<32 | uint64(answer.limitOrReason.at)
	return fmt.Errorf("%w of %d bytes", ErrTooLarge, limit)
}

func hostState() ([]byte, error) {
	defer borrow()()
	answer := new(wireState)
	ask(func() { wasmState(unsafe.Pointer(answer)) })
	if err := answer.failure(); err != nil {
		return nil, err
	}
	return optionBytes(wireOptionList{answer.someOrKind != 0, answer.state}), nil
}

func hostSetState(state []byte) error {
	defer borrow()()
	answer := new(wireState)
	ask(func() {
		wasmSetState(state != nil, unsafe.Pointer(unsafe.SliceData(state)), uint32(len(state)), unsafe.Pointer(answer))
	})
	return answer.failure()
}

func (a *wireState) failure() error {
	if !a.failed {
		return nil
	}
	limit, reason := uint64(a.rest)<<32|uint64(a.state.size), ""
	if a.someOrKind == stateUnavailable {
		reason = text(wireList{a.state.size, a.rest})
	}
	return stateFailure(a.someOrKind, limit, reason)
}

func hostSend(request *Request) (*Response, error) {
	defer borrow()()
	headers := lendPairs(request.Headers)
	body, answer := unsafe.Pointer(unsafe.SliceData(request.Body)), new(wireAnswer)
	ask(func() {
		wasmSend(request.Method, request.URL, lent[headers.at], headers.size, request.Body != nil, body, uint32(len(request.Body)),
			request.Timeout > 0, wholeMillis(request.Timeout), request.Redirects, unsafe.Pointer(answer))
	})
	if answer.failed {
		// Its text or number begins 8 bytes behind its own. A number reads as a text of no bytes: no limit has more than 32 bits.
		said := wireList{answer.headers.size, answer.body.at}
		return nil, httpFailure(uint8(answer.statusOrKind), text(said), said.at)
	}
	response := &Response{Status: answer.statusOrKind, Body: slice[byte](answer.body), URL: text(answer.url)}
	for _, pair := range slice[wirePair](answer.headers) {
		response.Headers = append(response.Headers, Pair{text(pair.name), text(pair.value)})
	}
	return response, nil
}

func hostProgress(basisPoints uint32, note string) { wasmProgress(basisPoints, note != "", note) }

func hostConfig(name string) (string, bool) {
	defer borrow()()
	answer := new(wireOptionList)
	ask(func() { wasmConfig(name, unsafe.Pointer(answer)) })
	return optionText(*answer), answer.some
}

func hostSecret(name string) []byte {
	defer borrow()()
	answer := new(wireOptionList)
	ask(func() { wasmSecret(name, unsafe.Pointer(answer)) })
	return optionBytes(*answer)
}

func hostLog(level slog.Level, message string, fields []Pair) {
	defer borrow()()
	list := lendPairs(fields)
	wasmLog(wireLevel(level), message, lent[list.at], list.size)
}

func hostLogEnabled(level slog.Level) bool { return wasmLogEnabled(wireLevel(level)) }

func wireLevel(level slog.Level) uint32 {
	switch {
	case level < slog.LevelDebug:
		return 0
	case level < slog.LevelInfo:
		return 1
	case level < slog.LevelWarn:
		return 2
	case level < slog.LevelError:
		return 3
	}
	return 4
}
