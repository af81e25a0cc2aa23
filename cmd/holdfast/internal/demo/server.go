package demo

import (
	"fmt"

	"github.com/alicebob/miniredis/v2"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
)

// Server is a Redis server inside this process, on a port of its own.
type Server struct {
	mini *miniredis.Miniredis
}

// StartServer starts one that executes the real scripts in real time.
func StartServer() (*Server, error) {
	mini := miniredis.NewMiniRedis()
	mini.ClockTTL(true)
	if err := mini.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("the embedded server did not start: %w", err)
	}
	return &Server{mini}, nil
}

// URL is where it listens.
func (s *Server) URL() string { return "redis://" + s.mini.Addr() }

// Target is how to connect to it.
func (s *Server) Target() (*connect.Target, error) { return connect.Options{URL: s.URL()}.Resolve() }

// Close stops it.
func (s *Server) Close() { s.mini.Close() }
