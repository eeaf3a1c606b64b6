package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

// readingTime is how long the records of all tasks may take to be read.
const readingTime = time.Minute

// shared reads once at a time, however many requests there are. A request that arrives
// during a read waits for the next one, so that it never gets what was read before it
// arrived. Requests must not change what they get.
type shared[T any] struct {
	log        *slog.Logger
	reads      singleflight.Group
	generation atomic.Uint64 // of the read that is to begin next
	reading    sync.Mutex    // held by the read that is under way
	kept       atomic.Pointer[kept[T]]
}

// kept is what was read lately.
type kept[T any] struct {
	value T
	at    time.Time // when the read began
}

// keptFor is how long it takes memory: longer than pages accept it.
const keptFor = 10 * time.Second

// recent is get for a request that accepts what was read so long ago.
func (s *shared[T]) recent(ctx context.Context, age time.Duration, read func(context.Context) (T, error)) (T, error) {
	if k := s.kept.Load(); k != nil && time.Since(k.at) <= age {
		return k.value, nil
	}
	return s.get(ctx, read)
}

// get returns what read returns, which is called by one request for all that wait.
func (s *shared[T]) get(ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	next := s.reads.DoChan(strconv.FormatUint(s.generation.Load(), 10), func() (any, error) {
		s.reading.Lock()
		defer s.reading.Unlock()
		s.generation.Add(1)
		ctx, cancel := context.WithTimeout(context.Background(), readingTime)
		defer cancel()
		now := &kept[T]{at: time.Now()}
		var err error
		if now.value, err = unbroken(ctx, s.log, read); err == nil {
			s.kept.Store(now)
			time.AfterFunc(keptFor, func() { s.kept.CompareAndSwap(now, nil) })
		}
		return now.value, err
	})
	select {
	case result := <-next:
		value, _ := result.Val.(T)
		return value, result.Err
	case <-ctx.Done():
		return *new(T), ctx.Err()
	}
}

// unbroken reads without ending the program if that panics: this is no goroutine of the
// HTTP server, which would recover.
func unbroken[T any](ctx context.Context, log *slog.Logger, read func(context.Context) (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("reading for the API caused a panic: please report this bug in Terrapulse", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = errors.New("internal error, see the log")
		}
	}()
	return read(ctx)
}
