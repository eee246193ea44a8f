// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Summary is what one step has measured, per Scan, for programs.
type Summary struct {
	ScansPerSecond float64 `json:"scansPerSecond"`
	Pods           float64 `json:"pods"`
	Writes         float64 `json:"writes"`
	GETs           float64 `json:"gets"`
	// OperatorCPU and APIServerCPU are in ms.
	OperatorCPU  float64 `json:"operatorCPU"`
	APIServerCPU float64 `json:"apiServerCPU"`
}

func (f *figures) write(file string) error {
	text, err := json.Marshal(Summary{
		ScansPerSecond: f.rate, Pods: f.pods, Writes: f.writes, GETs: f.reads, OperatorCPU: f.cpu, APIServerCPU: f.apiCPU,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o600)
}

// ReadSummary reads what the option Summary has written.
func ReadSummary(file string) (Summary, error) {
	var s Summary
	text, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(text, &s)
}

// goal is what a figure of ours should be: at most, or at least, a limit. With ratio the limit is a multiple of the peer's figure.
type goal struct {
	name    string
	of      func(*Summary) float64
	limit   float64
	ratio   bool
	atLeast bool
}

// goals are what a Scan with one hook may cost.
var goals = []goal{
	{name: "scans/s", of: func(s *Summary) float64 { return s.ScansPerSecond }, limit: 2, ratio: true, atLeast: true},
	{name: "operator CPU ms", of: func(s *Summary) float64 { return s.OperatorCPU }, limit: 0.5, ratio: true},
	{name: "API server CPU ms", of: func(s *Summary) float64 { return s.APIServerCPU }, limit: 0.6, ratio: true},
	{name: "pods", of: func(s *Summary) float64 { return s.Pods }, limit: 2},
	{name: "operator's writes", of: func(s *Summary) float64 { return s.Writes }, limit: 6},
	{name: "operator's GETs", of: func(s *Summary) float64 { return s.GETs }, limit: 0},
}

// met holds the figures against the goal as they are printed, with two digits: what goes by namespace and not by Scan, such as the start of a watch,
// must not decide.
func (g *goal) met(ours, peers float64) bool {
	value := ours
	if g.ratio {
		value = ours / peers
	}
	const half = 0.005
	if g.atLeast {
		return value >= g.limit-half
	}
	return value < g.limit+half
}

// Compare prints two Summaries side by side, with goals.
func Compare(out io.Writer, ours, peers *Summary) {
	fmt.Fprintf(out, "%-20s %10s %10s %8s %10s %s\n", "per Scan", "ours", "peer", "ratio", "goal", "met")
	for i := range goals {
		g := &goals[i]
		a, b := g.of(ours), g.of(peers)
		ratio := "-"
		if b != 0 {
			ratio = fmt.Sprintf("%.2f", a/b)
		}
		relation, unit := "<=", ""
		if g.atLeast {
			relation = ">="
		}
		if g.ratio {
			unit = " x"
		}
		met := "no"
		if g.met(a, b) {
			met = "yes"
		}
		fmt.Fprintf(out, "%-20s %10.2f %10.2f %8s %10s %s\n", g.name, a, b, ratio, fmt.Sprintf("%s %g%s", relation, g.limit, unit), met)
	}
}
