/// The identifier of an app or of a container, in reverse domain order, such as `com.acme.notes`.
///
/// It is a file's name too: 3 to 155 ASCII letters, digits, dots, hyphens and underscores, with a dot between other characters.
public struct AppIdentifier: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The longest identifier in bytes.
    public static let maximumLength = 155

    /// The identifier's text.
    public let text: String

    /// Accepts a text that has the form of an identifier; nil for any other.
    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard (3...Self.maximumLength).contains(bytes.count), bytes.first != 0x2E, bytes.last != 0x2E else {
            return nil
        }
        var hasDot = false
        var previous: UInt8 = 0
        for byte in bytes {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x5F: break
            case 0x2E where previous != 0x2E: hasDot = true
            default: return nil
            }
            previous = byte
        }
        guard hasDot else { return nil }
        self.text = text
    }

    /// The name of the folder that a container has at the source.
    public var folderName: FileName { FileName(unchecked: Array(text.utf8)) }

    /// The name of the document that describes the app or the container.
    public var recordName: FileName { FileName(unchecked: Array("\(text).json".utf8)) }

    /// The identifier that a document of that name describes; nil where it describes none.
    public init?(record name: [UInt8]) {
        let ending = Array(".json".utf8)
        guard name.count > ending.count, name.suffix(ending.count).elementsEqual(ending),
            let text = String(validating: name.dropLast(ending.count), as: UTF8.self)
        else { return nil }
        self.init(text)
    }

    /// Orders by bytes.
    public static func < (left: AppIdentifier, right: AppIdentifier) -> Bool { left.text < right.text }

    /// The identifier's text.
    public var description: String { text }
}

extension AppIdentifier: Codable {
    /// Reads a text; throws where it has not the form of an identifier.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let identifier = AppIdentifier(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "it is no identifier")
        }
        self = identifier
    }

    /// Writes the text.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }
}
