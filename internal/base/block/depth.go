package block

// TooDeep reports whether values or operators are nested so deep that a recursive
// parser would exhaust the stack. Characters in strings count, too; no real file
// comes near the limit.
func TooDeep(src []byte) bool {
	const most = 10_000
	brackets, unary, conditional := 0, 0, 0
	for _, c := range src {
		switch c {
		case '[', '{', '(':
			brackets++
		case ']', '}', ')':
			brackets--
		case '-', '!':
			unary++
			continue // a run of operators
		case ' ', '\t':
			continue
		case '?':
			conditional++
		}
		if brackets > most || unary > most || conditional > most {
			return true
		}
		unary = 0
	}
	return unary > most
}
