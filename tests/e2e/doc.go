// SPDX-License-Identifier: Apache-2.0

// Package e2e tests Scanyard as its users have it: a Kubernetes API server, the
// operator and the charts installed by Helm, real scanners, a real object storage.
// It looks only at what any client can see.
//
// It is a suite of Ginkgo. Its specs share one cluster, which the first process makes, and
// each has a namespace of its own. Upload URLs of scanners live three seconds there, so that
// every scan which takes longer goes through the operator's upload endpoint. Specs with the
// label defect-N hold against the numbered defects of secureCodeBox; docs/defects.md lists them.
//
// Every chart is installed. Scanners run in one of three ways:
//
//	scanners_test.go   the real scanner of this machine, under the name of the chart's
//	                   image, against targets that the test starts on loopback
//	images_test.go     the project's own image, built by its image builder; with the
//	                   variable BUILT_IMAGES all scanners that there is an image of
//	recorded_test.go   a stand-in for the others, which leaves what the scanner once
//	                   wrote where the chart's command says
//
// They need the project's binaries (make build), and the scanners (make tools). Where
// something is missing, the tests say how to install it.
//
//	make e2e SUITES=e2e LABELS=scanners
//	BUILT_IMAGES=1 make e2e SUITES=e2e FOCUS='nmap|screenshooter'
package e2e
