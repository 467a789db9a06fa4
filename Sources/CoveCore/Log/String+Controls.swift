extension String {
    /// The text on one line, as a person may be shown it: control characters, and those that turn the writing direction or
    /// begin a new line, become `\u{…}`.
    public var escapingControls: String {
        func isHarmless(_ scalar: Unicode.Scalar) -> Bool {
            switch scalar.value {
            case 0..<0x20, 0x7F...0x9F, 0x061C, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069: false
            default: true
            }
        }
        if unicodeScalars.allSatisfy(isHarmless) { return self }
        var result = ""
        for scalar in unicodeScalars {
            if isHarmless(scalar) {
                result.unicodeScalars.append(scalar)
            } else {
                result += "\\u{\(String(scalar.value, radix: 16))}"
            }
        }
        return result
    }
}
