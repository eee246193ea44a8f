// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// MaxWait is the most that a step waits by itself.
	MaxWait = time.Minute
	// maxAsked is the most of what a registry asks for that is believed.
	maxAsked = time.Hour

	firstBackoff = 5 * time.Second
	maxDoublings = 5
	jitter       = 0.2

	firstFailure = 30 * time.Second
	maxFailure   = 30 * time.Minute
)

// RetryAfter reads the header of that name, seconds or a date; false: there is none that can be read.
func RetryAfter(header http.Header, now time.Time) (time.Duration, bool) {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, maxAsked), true
	}
	date, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return min(max(date.Sub(now), 0), maxAsked), true
}

// Backoff is how long to wait where a registry does not say: 5 s, doubled for each time before, with a fifth of chance, which is a
// number from 0 to 1.
func Backoff(times int, chance float64) time.Duration {
	return Jitter(firstBackoff<<min(max(times, 0), maxDoublings), chance)
}

// Jitter makes a wait up to a fifth longer or shorter.
func Jitter(wait time.Duration, chance float64) time.Duration {
	return time.Duration(float64(wait) * (1 - jitter + 2*jitter*chance))
}

// allowance is what headers tell of a limit of requests.
type allowance struct {
	limit, remaining int64
	// window is how long the limit is for, left how much of it is to come.
	window, left time.Duration
}

// readAllowance reads ratelimit-limit, -remaining and -reset, or those with x- before; false: nothing is told.
func readAllowance(header http.Header, now time.Time) (allowance, bool) {
	for _, prefix := range []string{"Ratelimit-", "X-Ratelimit-"} {
		remaining, window, found := readQuantity(header.Get(prefix + "Remaining"))
		if !found {
			continue
		}
		a := allowance{remaining: remaining, window: window}
		if limit, window, found := readQuantity(header.Get(prefix + "Limit")); found {
			a.limit = limit
			if a.window == 0 {
				a.window = window
			}
		}
		a.left = a.window
		if reset, _, found := readQuantity(header.Get(prefix + "Reset")); found {
			a.left = untilReset(reset, now)
		}
		if a.left <= 0 {
			a.left = maxAsked
		}
		return a, true
	}
	return allowance{}, false
}

// untilReset reads seconds to come, or the second of a day that some registries send.
func untilReset(reset int64, now time.Time) time.Duration {
	const firstDate = 1_000_000_000
	if reset >= firstDate {
		return time.Unix(reset, 0).Sub(now)
	}
	return time.Duration(reset) * time.Second
}

// readQuantity reads a number with a window in seconds, such as 100;w=21600.
func readQuantity(text string) (number int64, window time.Duration, found bool) {
	text, parameters, _ := strings.Cut(text, ";")
	// A list of several limits has the one in force first.
	text, _, _ = strings.Cut(text, ",")
	number, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || number < 0 {
		return 0, 0, false
	}
	for parameter := range strings.SplitSeq(parameters, ";") {
		value, isWindow := strings.CutPrefix(strings.TrimSpace(parameter), "w=")
		if seconds, err := strconv.ParseUint(value, 10, 31); isWindow && err == nil {
			window = time.Duration(seconds) * time.Second
		}
	}
	return number, window, true
}
