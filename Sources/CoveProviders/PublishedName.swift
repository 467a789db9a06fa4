internal import CoveCore

/// The hidden name of a copy that a link leads to: it tells until when, and which device takes it back.
struct PublishedName: Sendable, Equatable {
    /// Where these copies are, in the root.
    static let folder = FileName(unchecked: Array(".cove-published".utf8))
    /// What another device has published goes so much later: its own has had its time for that.
    private static let grace: Int64 = 2 * 86_400
    private static let widths = [11, 16, 32]

    /// When the link ends, in seconds since 1970.
    let end: Int64
    /// The device, in hexadecimal digits.
    let owner: String
    /// What nobody can guess.
    private let token: String

    /// A new name.
    init(until end: Timestamp, owner: String) {
        // Eleven digits, for a thousand years.
        self.end = min(max(0, end.seconds), 0x7_FFFF_FFFF)
        self.owner = Self.mark(of: owner)
        token = "\(DocumentID.random())"
    }

    /// Reads a name; nil for any other.
    init?(_ name: some Collection<UInt8>) {
        let parts = String(decoding: name, as: UTF8.self).split(separator: "-", omittingEmptySubsequences: false)
        guard parts.map(\.utf8.count) == Self.widths,
            parts.allSatisfy({ $0.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) } }),
            let end = Int64(parts[0], radix: 16)
        else { return nil }
        self.end = end
        (owner, token) = (String(parts[1]), String(parts[2]))
    }

    /// The name.
    var fileName: FileName {
        let digits = String(end, radix: 16)
        let padded = String(repeating: "0", count: max(0, Self.widths[0] - digits.count)) + digits
        return FileName(unchecked: Array("\(padded)-\(owner)-\(token)".utf8))
    }

    /// True where a device made it.
    func isOf(_ owner: String) -> Bool { self.owner == Self.mark(of: owner) }

    /// True where a device is to take it back by now.
    func isOver(for owner: String, at now: Timestamp) -> Bool {
        end <= now.seconds.saturatingSubtract(isOf(owner) ? 0 : Self.grace)
    }

    /// Deletes those whose time is over; when the next one's is, nil where the device has none.
    ///
    /// One that can't be deleted keeps none of the others, and is tried again.
    static func sweep(
        _ names: [PublishedName],
        of owner: String,
        at now: Timestamp,
        log: (String) -> Void,
        _ delete: (PublishedName) async throws(ProviderError) -> Void
    ) async -> Timestamp? {
        var next: Timestamp?
        for name in names {
            guard name.isOver(for: owner, at: now) else {
                if name.isOf(owner) { next = min(next ?? .distantFuture, Timestamp(seconds: name.end, nanoseconds: 0)) }
                continue
            }
            do throws(ProviderError) { try await delete(name) } catch {
                log("what was published is deleted another time: \(error)")
                next = min(next ?? .distantFuture, now + .seconds(600))
                // Neither can the others be.
                if error == .cancelled || error.parksAccount { break }
            }
        }
        return next
    }

    private static func mark(of owner: String) -> String {
        String(Digest.hash(Array(owner.utf8), .sha256).hexadecimal.prefix(widths[1]))
    }
}
