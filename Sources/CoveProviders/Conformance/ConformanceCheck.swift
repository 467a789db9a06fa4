internal import CoveCore

/// One thing that Cove relies on, and how it is tried.
struct ConformanceCheck: Sendable {
    /// Why a check failed, in one sentence about the provider.
    struct Failure: Error { let why: String }

    /// A sentence that holds of a provider that passes.
    let promise: String
    /// Where it has to hold.
    var isDue: @Sendable (ProviderCapabilities) -> Bool = { _ in true }
    /// Throws `Failure`, or the error of a call that should have worked.
    let run: @Sendable (CheckBench) async throws -> Void

    /// Demands that something holds.
    static func demand(_ holds: Bool, _ why: @autoclosure () -> String) throws(Failure) {
        if !holds { throw Failure(why: why()) }
    }

    /// Demands that a call fails with a certain error.
    static func demand<T>(
        _ wanted: ProviderError,
        of call: String,
        _ body: () async throws(ProviderError) -> T
    ) async throws(Failure) {
        do throws(ProviderError) {
            _ = try await body()
        } catch {
            guard error.isSame(as: wanted) else {
                throw Failure(why: "\(call) failed with “\(error)”, not with “\(wanted)”")
            }
            return
        }
        throw Failure(why: "\(call) did not fail with “\(wanted)”")
    }

    /// Bytes that differ at every place, so that no part can be taken for another one.
    static func sample(_ count: Int, _ seed: UInt64 = 1) -> [UInt8] {
        var state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
        return (0..<count).map { _ in
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return UInt8(truncatingIfNeeded: state)
        }
    }
}

extension ProviderError {
    /// True for an error of the same kind, whatever it tells beside that.
    func isSame(as other: ProviderError) -> Bool {
        switch (self, other) {
        case (.filenameCollision, .filenameCollision), (.conflict, .conflict): true
        default: self == other
        }
    }
}
