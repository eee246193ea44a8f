// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Day is a day of 24 hours.
const Day = 24 * time.Hour

// ParsePeriod reads a period of a flag, such as 12h or 30d, in which d is a day of 24 hours. It is longer than nothing and not
// longer than most.
func ParsePeriod(text string, most time.Duration) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 1 || n > int(most/Day) {
			return 0, fmt.Errorf("%q must be a number of days between 1d and %dd", text, int(most/Day))
		}
		return time.Duration(n) * Day, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > most {
		return 0, fmt.Errorf("%q must be a time such as 7d or 12h, at most %dd", text, int(most/Day))
	}
	return d, nil
}
