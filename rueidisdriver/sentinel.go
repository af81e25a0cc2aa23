package rueidisdriver

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// sentinelsLimit bounds how long a search waits for a Sentinel to name the primary, and for the primary's answer.
const sentinelsLimit = 500 * time.Millisecond

// askSentinels returns a new client of the primary that a Sentinel names now, or nil. rueidis learns of a failover by its connection
// to one Sentinel, and does not notice that this has fallen silent, unless Sentinel.Dialer.KeepAlive is set: it
// would use the former primary for as long as TCP keeps the connection.
//
// It asks every Sentinel of InitAddress at once, each through a separate client, and returns the first client that connects. The
// others are closed. Their goroutines end within a few seconds; until then the Sentinels are not asked again.
func (n *node) askSentinels() rueidis.Client {
	option, ok := n.sentinelOption()
	if !ok {
		return nil
	}
	select {
	case n.asking <- struct{}{}:
	default:
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), sentinelsLimit)
	defer cancel()
	found, failed := make(chan rueidis.Client), make(chan struct{})
	var all sync.WaitGroup
	for _, addr := range option.InitAddress {
		all.Go(func() {
			one := option
			one.InitAddress = []string{addr}
			client, err := rueidis.NewClient(one)
			if err != nil {
				return
			}
			select {
			case found <- client:
			case <-ctx.Done():
				client.Close()
			}
		})
	}
	go func() { // ends as they do
		all.Wait()
		close(failed)
		<-n.asking
	}()
	select {
	case client := <-found:
		return client
	case <-failed:
	case <-ctx.Done():
	}
	return nil
}

// sentinelOption returns the options for a new client like the program's, if that is behind Sentinel. It must not wait for long for
// what is silent.
func (n *node) sentinelOption() (option rueidis.ClientOption, ok bool) {
	if n.addr != "" || n.driver.client.Mode() != rueidis.ClientModeSentinel {
		return option, false
	}
	option, ok = optionOf(n.driver.client)
	option.DisableCache, option.OnInvalidations = true, nil // these are about the program's commands
	option.SendToReplicas, option.PipelineMultiplex = nil, -1
	option.ConnWriteTimeout = findLimit
	option.Dialer.Timeout, option.Sentinel.Dialer.Timeout = findLimit, findLimit
	option.Dialer.KeepAlive, option.Sentinel.Dialer.KeepAlive = time.Second, time.Second
	return option, ok
}

// optionOf returns the options with which a client behind Sentinel was made. rueidis does not show them, so this reads the field in
// which it keeps them. Without that field, as in a client that wraps rueidis's, it reports false.
func optionOf(client rueidis.Client) (option rueidis.ClientOption, ok bool) {
	v := reflect.ValueOf(client)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return option, false
	}
	field := v.Elem().FieldByName("mOpt")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*rueidis.ClientOption]() || field.IsNil() {
		return option, false
	}
	return *(*rueidis.ClientOption)(field.UnsafePointer()), true
}
