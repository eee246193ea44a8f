// SPDX-License-Identifier: Apache-2.0

// Package sinks puts our sinks into a program: a line for each.
package sinks

import (
	_ "github.com/scanyard/scanyard/forwarding/internal/sinks/file"  // file
	_ "github.com/scanyard/scanyard/forwarding/internal/sinks/grpc"  // grpc, grpcs
	_ "github.com/scanyard/scanyard/forwarding/internal/sinks/http"  // http, https
	_ "github.com/scanyard/scanyard/forwarding/internal/sinks/kafka" // kafka
	_ "github.com/scanyard/scanyard/forwarding/internal/sinks/nats"  // nats, tls
	_ "github.com/scanyard/scanyard/forwarding/internal/sinks/otlp"  // otlp
	_ "github.com/scanyard/scanyard/forwarding/internal/sinks/s3"    // s3
)
