// Package crews has processes, and how they are told what to do: JSON, an object a line, on their standard input; they
// answer so on their standard output. A process ends when its input does, so none outlives the run, and it is always waited
// for. Each has two goroutines here, which end with it.
package crews
