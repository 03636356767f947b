// exceljs
import ExcelJS from 'exceljs';
import { checks } from '../checks.js';

export default checks({
  'write and read': async () => { const book = new ExcelJS.Workbook(); const sheet = book.addWorksheet('tea'); sheet.addRow(['Ada', 3]); const data = await book.xlsx.writeBuffer(); const read = new ExcelJS.Workbook(); await read.xlsx.load(data); return read.getWorksheet('tea').getRow(1).values; },
});
