// SPDX-License-Identifier: Apache-2.0

package app

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanyard/scanyard/operator/internal/certificate"
)

// buildInfo says by its labels which build runs.
func buildInfo(version string) prometheus.Collector {
	return constant(1, prometheus.GaugeOpts{
		Name: "scanyard_build_info", Help: "1; the labels say which build of the operator runs.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	})
}

// expiry says when a certificate expires that this process serves with.
func expiry(name string, c *certificate.Certificate) prometheus.Collector {
	return constant(float64(c.TLS.Leaf.NotAfter.Unix()), prometheus.GaugeOpts{
		Name: "scanyard_certificate_expiry_timestamp_seconds", Help: "When a certificate of the operator expires, in seconds since 1970.",
		ConstLabels: prometheus.Labels{"certificate": name},
	})
}

func constant(value float64, o prometheus.GaugeOpts) prometheus.Collector {
	g := prometheus.NewGauge(o)
	g.Set(value)
	return g
}
