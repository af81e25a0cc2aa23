package driverkit

import "reflect"

// Missing reports whether there is no client: nil, or an interface that holds a nil pointer.
func Missing(client any) bool {
	v := reflect.ValueOf(client)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
