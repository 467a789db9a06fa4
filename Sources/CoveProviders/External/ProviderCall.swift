internal import CoveCore

extension ProviderSession {
    /// A call under way; everything in it is under the session's lock, but for the gate.
    final class Call: @unchecked Sendable {
        let name: WireCall
        var continuation: CheckedContinuation<Result<JSONValue, ProviderError>, Never>?
        var delivery: Delivery?
        /// What comes with it.
        let content: (any ContentSource)?
        /// How many bytes of it the process has taken, and whether it says by itself how many have arrived.
        var taken: Int64 = 0
        var tellsArrival = false
        var gate: CreditGate?
        var lastSign: MonotonicTime
        var cancelledAt: MonotonicTime?
        /// The process knows of it.
        var isAnnounced = false
        /// The reading thread gives bytes to the sink, or one for uploads reads the content; the caller goes on after that.
        var isInUse = false
        /// All of the content was sent.
        var isSent: Bool
        var outcome: Result<JSONValue, ProviderError>?

        let began: MonotonicTime

        init(_ name: WireCall, _ delivery: Delivery?, content: (any ContentSource)?, now: MonotonicTime) {
            self.name = name
            self.delivery = delivery
            self.content = content
            isSent = content == nil
            isInUse = content != nil
            began = now
            lastSign = now
        }
    }

    /// Where the bytes of a fetch go, and which come next.
    struct Delivery {
        let sink: any ContentSink
        var next: Int64
        let end: Int64
        /// Taken, and not yet told to the process.
        var taken = 0
    }
}

extension ContentSource {
    /// A piece of the content.
    ///
    /// Throws when it ends before.
    func bytes(at offset: Int64, count: Int) throws(ProviderError) -> [UInt8] {
        var failure: ProviderError?
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            do throws(ProviderError) {
                while filled < count {
                    let part = UnsafeMutableRawBufferPointer(buffer).suffix(from: filled)
                    let read = try read(at: offset + Int64(filled), into: UnsafeMutableRawBufferPointer(rebasing: part))
                    if read == 0 { throw .failed("the content ends at \(offset + Int64(filled)) of \(size)", nil) }
                    filled += read
                }
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        return bytes
    }
}
