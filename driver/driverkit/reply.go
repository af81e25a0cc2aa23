package driverkit

import (
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
)

// Reply turns what a client makes of a script's reply into what [driver.Driver] promises: nil, int64, string, and lists of
// these. The error is a [*driver.Error] whose MayHaveRun is true: an error inside a list is the script's own, and any
// other type is one of RESP3, for which the script has asked.
func Reply(reply any) (any, error) {
	switch reply := reply.(type) {
	case nil, int64, string:
		return reply, nil
	case []any:
		list := make([]any, len(reply))
		for i, element := range reply {
			var err error
			if list[i], err = Reply(element); err != nil {
				return nil, err
			}
		}
		return list, nil
	case error:
		return nil, &driver.Error{MayHaveRun: true, Err: reply}
	default:
		return nil, &driver.Error{MayHaveRun: true, Err: fmt.Errorf("driver: reply of type %T", reply)}
	}
}
