package holdfast

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestZeroValues calls every method of every type that has to be made: each that could fail panics, and says how to
// make one, or refuses its arguments. None fails with another panic.
func TestZeroValues(t *testing.T) {
	t.Parallel()
	owner := Owner{"99f17b91-c6cc-889e-88f6-8265bee545cf:1"}
	arguments := map[reflect.Type]any{
		reflect.TypeFor[context.Context](): t.Context(), reflect.TypeFor[int](): 1, reflect.TypeFor[time.Duration](): time.Minute,
		reflect.TypeFor[Owner](): owner, reflect.TypeFor[string](): "x", reflect.TypeFor[*Hold](): &Hold{},
	}
	for _, zero := range []any{
		&Client{}, &Mutex{}, &RWMutex{}, &RLocker{}, &PermitSemaphore{}, &UnleasedSemaphore{}, &Latch{}, &MultiLock{}, &Hold{},
	} {
		value := reflect.ValueOf(zero)
		for i := range value.NumMethod() {
			method := value.Type().Method(i)
			var args []reflect.Value
			wanted := method.Type.NumIn()
			if method.Type.IsVariadic() {
				wanted--
			}
			for j := 1; j < wanted; j++ {
				args = append(args, reflect.ValueOf(arguments[method.Type.In(j)]))
			}
			wantUnmade(t, value.Type().Elem().Name()+"."+method.Name, func() error {
				for _, result := range value.Method(i).Call(args) {
					if err, failed := reflect.TypeAssert[error](result); failed {
						return err
					}
				}
				if n := method.Type.NumOut(); n > 0 && method.Type.Out(n-1) == reflect.TypeFor[error]() {
					t.Errorf("%s.%s succeeds", value.Type(), method.Name)
				}
				return nil
			})
		}
	}
	nothing := func(context.Context, *Hold) error { return nil }
	for what, call := range map[string]func() error{
		"Do":                      func() error { return Do(t.Context(), &Mutex{}, nothing) },
		"Lead":                    func() error { return Lead(t.Context(), &PermitSemaphore{}, nothing) },
		"Lead of several":         func() error { return Lead(t.Context(), &MultiLock{}, nothing) },
		"NewMultiLock":            func() error { _, err := NewMultiLock(&Mutex{}).Lock(t.Context()); return err },
		"NewMultiLock of several": func() error { _, err := NewMultiLock(&MultiLock{}).Lock(t.Context()); return err },
		"NewMultiLock of permits": func() error {
			_, err := NewMultiLock(&PermitSemaphore{}).Lock(t.Context(), MinHold(time.Second))
			return err
		},
		"NewRedLock":   func() error { _, err := NewRedLock(&Mutex{}).Lock(t.Context()); return err },
		"OwnerFrom":    func() error { OwnerFrom(t.Context(), &Mutex{}); return nil },
		"SyncLocker":   func() error { SyncLocker(t.Context(), &Mutex{}).Lock(); return nil },
		"a nil Client": func() error { (*Client)(nil).NewMutex("x"); return nil },
	} {
		wantUnmade(t, what, call)
	}
}

// wantUnmade checks that a call refuses a zero value, if it needs more.
func wantUnmade(t *testing.T, what string, call func() error) {
	t.Helper()
	defer func() {
		if said := recover(); said != nil {
			if text, ok := said.(string); !ok || !strings.Contains(text, "is a zero value; make one with") {
				t.Errorf("%s panics: %v", what, said)
			}
		}
	}()
	if err := call(); err != nil && !errors.Is(err, ErrInvalid) {
		t.Errorf("%s: %v", what, err)
	}
}
