// SPDX-License-Identifier: Apache-2.0

// Package rawgen writes large made-up raw results, for benchmarks and tests of memory. The same arguments always give
// the same bytes. All addresses are of the benchmark range and all names of example.com.
package rawgen
