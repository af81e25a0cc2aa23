package otel_test

import (
	"context"
	"fmt"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	holdfastotel "github.com/holdfast-go/holdfast/otel"
)

func Example() {
	ctx := context.Background()
	server, err := memdriver.NewServer() // a program has a Redis
	if err != nil {
		panic(err)
	}
	defer server.Close()
	reader := sdkmetric.NewManualReader() // a program has an exporter

	hooks, err := holdfastotel.New(holdfastotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	if err != nil {
		panic(err)
	}
	client, err := holdfast.New(server.Driver(), holdfast.WithHooks(hooks))
	if err != nil {
		panic(err)
	}
	defer client.Close()

	hold, err := client.NewMutex("orders:42").Lock(ctx)
	if err != nil {
		panic(err)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		panic(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
			fmt.Println(m.Name, sum.DataPoints[0].Value)
		}
	}
	fmt.Println(hold.Unlock())
	// Output:
	// holdfast.hold.active 1
	// <nil>
}
