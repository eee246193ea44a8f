// SPDX-License-Identifier: Apache-2.0

package nmap

import (
	"strconv"

	"github.com/scanyard/scanyard/parsers/sdk"
)

// reach counts the hosts of a result by what nmap knows of them.
type reach struct {
	answered int // up, because something came back
	silent   int // taken to be up (-Pn), but no port answered
	unasked  int // listed only, or taken to be up and nothing was sent to it
	down     int // listed as down
	total    int // as nmap counts; most hosts that are down are not listed
	counted  bool
}

// add takes one host.
func (c *reach) add(h *host) {
	switch {
	case h.isDown:
		c.down++
	case h.isUp && !h.assumed, h.answered:
		c.answered++
	case h.asked:
		c.silent++
	default:
		c.unasked++
	}
}

// count takes what nmap counts at the end of a result.
func (c *reach) count(total []byte) {
	n, err := strconv.Atoi(string(total))
	c.total, c.counted = n, err == nil && n >= 0
}

// reportReach reports what was reached.
func (c *reach) reportReach(in *sdk.Input) {
	total := c.answered + c.silent + c.unasked + c.down
	if c.counted {
		total = max(total, c.total)
	}
	switch {
	case c.answered > 0:
		in.Reached("%d of %d hosts answered", c.answered, total)
	case total == 0 && c.counted:
		in.NothingReached("0 hosts were scanned: no target was given, or none could be resolved")
	case total == 0:
		in.ReachUnknown("the result does not say how many hosts were scanned")
	case c.unasked > 0:
		in.ReachUnknown("nothing was sent to %d of %d hosts, as the parameters ask", c.unasked, total)
	case c.silent > 0:
		in.NothingReached("0 of %d hosts answered on any port", total)
	default:
		in.NothingReached("0 of %d hosts answered", total)
	}
}
