module github.com/scanyard/scanyard/scanners

go 1.26.0
