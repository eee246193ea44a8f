// This module is not in go.work: it is built as a program of somebody else is, with nothing of ours but forwarding/client.
module example.com/gatekeeper

go 1.26.0

require (
	github.com/scanyard/scanyard/apis v0.0.0
	github.com/scanyard/scanyard/forwarding v0.0.0
)

require (
	github.com/klauspost/compress v1.19.2 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260803160001-6ac0973c030d // indirect
	google.golang.org/grpc v1.83.1 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace (
	github.com/scanyard/scanyard/apis => ../../apis
	github.com/scanyard/scanyard/forwarding => ../../forwarding
)
