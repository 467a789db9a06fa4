internal import CoveCore

/// Takes an S3 document apart as it comes: the leaves of each row element, and those outside of all rows.
final class S3Document: XMLHandler {
    /// The leaves of one element, by name.
    typealias Fields = [String: [UInt8]]

    private static let fieldLimit = 200

    private let rows: Set<String>
    private let onRow: (_ name: String, _ fields: Fields) throws(ProviderError) -> Void
    private var row: String?
    private var fields: Fields = [:]
    private(set) var completed = 0
    /// The root element's name, empty before it.
    private(set) var root = ""
    /// What stands outside of the rows.
    private(set) var values: Fields = [:]

    init(
        rows: Set<String> = [],
        onRow: @escaping (_ name: String, _ fields: Fields) throws(ProviderError) -> Void = { _, _ in }
    ) {
        self.rows = rows
        self.onRow = onRow
    }

    /// Reads a whole small document.
    static func read(
        _ bytes: [UInt8],
        rows: Set<String> = [],
        onRow: @escaping (_ name: String, _ fields: Fields) throws(ProviderError) -> Void = { _, _ in }
    ) throws(ProviderError) -> S3Document {
        let document = S3Document(rows: rows, onRow: onRow)
        let scanner = XMLScanner(document)
        do {
            try bytes.withUnsafeBytes { try scanner.parse($0) }
        } catch let error as ProviderError {
            throw error
        } catch {
            throw .failed("\(error)", nil)
        }
        try scanner.finish()
        return document
    }

    /// A leaf outside of the rows, as text.
    subscript(_ name: String) -> String? { values[name].map { String(decoding: $0, as: UTF8.self) } }

    func begin(_ name: String) throws(ProviderError) {
        let name = Self.local(name)
        if root.isEmpty { root = name }
        guard row == nil, rows.contains(name) else { return }
        row = name
        fields = [:]
    }

    func end(_ name: String, text: [UInt8]) throws(ProviderError) {
        let name = Self.local(name)
        guard let row else {
            guard values.count < Self.fieldLimit else { throw .failed("the server's answer has too many parts", nil) }
            values[name] = text
            return
        }
        if row == name {
            self.row = nil
            completed += 1
            try onRow(name, fields)
        } else {
            guard fields.count < Self.fieldLimit else { throw .failed("the server's answer has too many parts", nil) }
            fields[name] = text
        }
    }

    /// The name without its namespace, which some servers leave out.
    private static func local(_ name: String) -> String {
        name.lastIndex(of: " ").map { String(name[name.index(after: $0)...]) } ?? name
    }
}

extension S3Document.Fields {
    /// A leaf as text.
    func text(_ name: String) -> String? { self[name].map { String(decoding: $0, as: UTF8.self) } }
}
