package rest

// Role is what a key may do.
type Role = Enum[roles]

type roles struct{}

func (roles) Name() string { return "Role" }

func (roles) Values() []any { return []any{"viewer", "operator", "editor", "admin", "worker"} }
