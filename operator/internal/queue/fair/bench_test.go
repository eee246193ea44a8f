// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// many is a listing of 100,000 Scans: one namespace has nine tenths of them. Some are of a
// scan type that is at its limit, some have a target.
func many() ([]Scan, Limits) {
	scans := make([]Scan, 100_000)
	for i := range scans {
		s := Scan{
			UID: fmt.Sprintf("6f1f7a52-%04x-4c1c-9d2e-%012x", i%0xffff, i), Namespace: "flood", Name: fmt.Sprintf("scan-%06d", i),
			ScanType: "nmap", Created: noon.Add(time.Duration(i%5000) * time.Second), Priority: int32(i % 7),
		}
		if i%10 == 0 {
			s.Namespace = fmt.Sprintf("team-%03d", i/10%500)
		}
		if i%3 == 0 {
			s.ScanType = "zap"
		}
		if i%4 == 0 {
			s.Labels = map[string]string{"host": strconv.Itoa(i % 1000)}
		}
		scans[i] = s
	}
	for i := range 40 {
		scans[i].Running = true
	}
	return scans, Limits{
		Cluster: Bounds{MaxRunning: new(int32(50)), ScanTypes: map[string]int32{"zap": 5}, Targets: map[string]int32{"host": 1}},
		Default: Tenant{ByPriority: true},
	}
}

// BenchmarkDecide is what happens when slots become free: ten of fifty are.
func BenchmarkDecide(b *testing.B) {
	scans, limits := many()
	s := NewState(limits, scans...)
	if n := len(s.Decide(noon)); n != 10 {
		b.Fatalf("%d start", n)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Decide(noon)
	}
}

// BenchmarkDecideUnbounded is the decision in which everything may start.
func BenchmarkDecideUnbounded(b *testing.B) {
	scans, _ := many()
	s := NewState(Limits{}, scans...)
	if n := len(s.Decide(noon)); n != len(scans)-40 {
		b.Fatalf("%d start", n)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Decide(noon)
	}
}

// BenchmarkDecideAllHeld looks at every Scan and finds none that may start.
func BenchmarkDecideAllHeld(b *testing.B) {
	scans, _ := many()
	s := NewState(Limits{Cluster: Bounds{ScanTypes: map[string]int32{"nmap": 0, "zap": 0}}}, scans...)
	if n := len(s.Decide(noon)); n != 0 {
		b.Fatalf("%d start", n)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Decide(noon)
	}
}

// BenchmarkTurn is a slot's whole turn: a Scan ends, the next one is chosen and starts, and
// a new one comes.
func BenchmarkTurn(b *testing.B) {
	scans, limits := many()
	s := NewState(limits, scans...)
	var running []Scan
	start := func() {
		for _, st := range s.Decide(noon) {
			scan, _ := s.Get(st.UID)
			scan.Running = true
			running = append(running, scan)
		}
		for _, r := range running {
			s.Put(r)
		}
	}
	start()
	b.ReportAllocs()
	for b.Loop() {
		ended := running[0]
		running = append(running[:0], running[1:]...)
		s.Delete(ended.UID)
		st := s.Decide(noon)
		if len(st) != 1 {
			b.Fatalf("%d start", len(st))
		}
		scan, _ := s.Get(st[0].UID)
		scan.Running = true
		s.Put(scan)
		running = append(running, scan)
		ended.Running = false
		s.Put(ended)
	}
}

// BenchmarkDecideFromListing is the decision with nothing kept from before, as after a restart.
func BenchmarkDecideFromListing(b *testing.B) {
	scans, limits := many()
	b.ReportAllocs()
	for b.Loop() {
		if n := len(Decide(limits, scans, noon)); n != 10 {
			b.Fatalf("%d start", n)
		}
	}
}

// BenchmarkStandings measures the positions of all waiting Scans.
func BenchmarkStandings(b *testing.B) {
	scans, limits := many()
	s := NewState(limits, scans...)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for range s.Standings {
			n++
		}
		if n != len(scans)-40 {
			b.Fatalf("%d stand", n)
		}
	}
}
