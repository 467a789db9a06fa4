internal import CoveCore

/// Writes what `--json` asks for.
enum JSONOutput {
    /// Writes a message as one line of JSON with sorted keys.
    static func write(_ message: some Encodable) throws(Failure) {
        do throws(JSONError) {
            Terminal.standardOutput.write(try JSONValue(encoding: message).bytes + [0x0A])
        } catch {
            throw Failure(nil, "the result \(error)")
        }
    }
}
